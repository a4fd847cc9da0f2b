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
    if name == "dies":
        os._exit(3)
    elif name == "half":
        sys.stdout.write('{"jsonrpc": "2.0", "id": ')
        sys.stdout.flush()
        os._exit(0)
    elif name == "garbage":
        sys.stdout.write("debug: hello\n\n[\n")
        answer(request, text("after garbage"))
    elif name == "batch":
        send([{"jsonrpc": "2.0", "id": request["id"], "result": text("in a batch")}])
    elif name == "huge":
        sys.stdout.write("x" * (70 * 1024 * 1024))
        sys.stdout.flush()
    elif name == "never":
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "begun"}})
    elif name == "meddles":
        answer({"id": args["with"]}, text("forged"))
        answer(request, text("meddled"))
    elif name == "mutates":
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        answer(request, text("changed"))
    else:
        answer(request, text(f"{name} ran with {json.dumps(args, sort_keys=True)}"))


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
