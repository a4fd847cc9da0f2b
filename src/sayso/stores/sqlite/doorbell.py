"""Doorbell: notifications between processes that share a SQLite file, by datagram sockets in a folder next to it.

A notification is only a hint to read the rows: forging or losing one changes nothing, and a slow poll is the fallback.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import stat
import threading
import uuid
from pathlib import Path

_BELL = re.compile(r"\d{1,10}-[0-9a-f]{8}")
_LARGEST = 8192
_LONGEST_ADDRESS = 100  # the kernel allows 107 bytes


class Doorbell:
    """The datagram socket of this process, and the broadcast to the sockets of the others."""

    def __init__(self, database: Path) -> None:
        """Bind a socket next to the database; without one (Windows, an odd file system) only the poll works."""
        self._folder = database.with_name(database.name + "-bells")
        self._name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._socket: socket.socket | None = None
        self._folder_fd = -1
        self._awake = threading.Event()
        with contextlib.suppress(OSError, AttributeError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            bell.settimeout(0)  # a peer that does not read must not block the sender
            try:
                bell.bind(self._address(self._name))
            except OSError:
                bell.close()
                raise
            self._socket = bell

    def ring(self, request_ids: list[str]) -> None:
        """Notify the other processes that these requests, or something else, changed."""
        if self._socket is None:
            return
        message = ",".join(request_ids).encode()
        if len(message) > _LARGEST:
            message = b""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder_fd):  # noqa: PTH208 - by handle: the folder may have a long name
                if name != self._name and _BELL.fullmatch(name):
                    self._send(message, name)

    def _send(self, message: bytes, name: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message, self._address(name))
        except ConnectionRefusedError:
            self._unlink_socket(name)  # a killed process left the socket behind
        except OSError:
            return  # its queue is full: it is awake anyway, or will poll

    def _unlink_socket(self, name: str) -> None:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(name, dir_fd=self._folder_fd).st_mode):  # and nothing but a socket
                os.unlink(name, dir_fd=self._folder_fd)

    def wait_for_ring(self, seconds: float) -> list[str] | None:
        """Wait for a notification; return its ids (an empty list stands for any), or None after the timeout."""
        if self._socket is None:
            self._awake.wait(seconds)
            return None
        try:
            if not select.select([self._socket], [], [], seconds)[0]:
                return None
            message = self._socket.recv(_LARGEST)
        except (OSError, ValueError):
            return None
        return message.decode(errors="replace").split(",") if message else []

    def wake(self) -> None:
        """End a `wait_for_ring` that is under way."""
        self._awake.set()
        if self._socket is not None:
            self._send(b"", self._name)

    def close(self) -> None:
        """Close and remove the socket."""
        if self._socket is not None:
            self._unlink_socket(self._name)
            self._socket.close()
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1
        self._socket = None
        with contextlib.suppress(OSError):
            self._folder.rmdir()  # only the last process succeeds; the sockets of others keep it

    def _address(self, name: str) -> str:
        plain = str(self._folder / name)
        if len(os.fsencode(plain)) <= _LONGEST_ADDRESS:
            return plain
        return f"/proc/self/fd/{self._folder_fd}/{name}"  # a short path to a folder with a long name
