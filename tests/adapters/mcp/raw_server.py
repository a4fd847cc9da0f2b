"""A server of raw lines, which does what a real one may do at its worst; each tool is one way to behave."""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

BOOK, DEFINITIONS = Path(sys.argv[1]), Path(sys.argv[2])  # what ran; what it lists, read anew each time


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: Any, result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": False}


def call(request: Any) -> None:
    name: str = request["params"]["name"]
    args: dict[str, Any] = request["params"].get("arguments") or {}
    if name == "asks" and "requestState" not in request["params"]:
        answer(request, {"resultType": "input_required", "requestState": "s-1", "inputRequests": {}})
        return
    with BOOK.open("a", encoding="utf-8") as book:
        book.write(json.dumps([name, args]) + "\n")
    if name in RAW:
        sys.stdout.buffer.write(RAW[name])
        sys.stdout.buffer.flush()
    if name in {"dies", "half"}:
        os._exit(3 if name == "dies" else 0)
    send_before(name, args, request["id"])
    if name not in {"huge", "never", "batch"}:
        answer(request, text(RESULTS.get(name) or f"{name} ran with {json.dumps(args, sort_keys=True)}"))


RAW = {
    "half": b'{"jsonrpc": "2.0", "id": ',
    "garbage": b"debug: hello\n\n[\n",
    "mumbles": b'{"jsonrpc": "2.0", "method": "x\xff"}\n',
    "huge": b"x" * (70 * 1024 * 1024),
    "never": b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "begun"}}\n',
    "mutates": b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n',
}
RESULTS = {"garbage": "after garbage", "mumbles": "mumbled", "meddles": "meddled", "mutates": "changed"}


def send_before(name: str, args: Any, key: object) -> None:
    if name == "batch":
        send([{"jsonrpc": "2.0", "id": key, "result": text("in a batch")}])
    if name == "meddles":
        answer({"id": args["with"]}, text("forged"))


def listing(request: Any) -> None:
    tools = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
    params: dict[str, Any] = request.get("params") or {}
    with BOOK.with_name("listed").open("a", encoding="utf-8") as listed:
        listed.write(json.dumps(params.get("_meta")) + "\n")
    at = int(params.get("cursor", 0))
    page = {"tools": tools[at : at + 5]}
    answer(request, {**page, "nextCursor": str(at + 5)} if at + 5 < len(tools) else page)


def main() -> None:
    BOOK.with_name("pid").write_text(str(os.getpid()))
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "tools/call":
                threading.Thread(target=call, args=[request]).start()
            case "tools/list":
                listing(request)
            case "notifications/cancelled":
                with BOOK.open("a", encoding="utf-8") as book:
                    book.write(json.dumps(["cancelled", request["params"]]) + "\n")
            case _ if "id" in request and "method" in request:
                answer(request, {"method": request["method"], "params": request.get("params")})
            case _:
                pass


main()
