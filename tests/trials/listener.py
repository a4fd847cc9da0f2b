"""Loopback listener of the sandbox: answers HTTP on one port while the command behind its own arguments runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"


def answer(listener: socket.socket) -> None:
    """Answer every connection in the same way."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(1)
            try:
                connection.recv(65_536)
                connection.sendall(ANSWER)
            except OSError:
                continue


if __name__ == "__main__":
    threading.Thread(target=answer, args=(socket.create_server(("127.0.0.1", 8765)),), daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
