"""The relay: reads `tools/call`, listings of tools and cancellations of both sides, and passes all else unread.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from sayso.adapters.kit import GuardedRun, RepeatedCalls, add_feedback, build_call, call_text, has_feedback
from sayso.adapters.mcp import messages
from sayso.adapters.mcp.messages import MessageError
from sayso.adapters.mcp.tool_listing import Listing
from sayso.adapters.mcp.waiting import Waiting, own_round
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied, Pending
from sayso.errors import StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.kit import Gate
    from sayso.adapters.mcp.outlet import Outlet
    from sayso.core.model import ToolCall
    from sayso.policy.policy import ToolRules

_LOG = logging.getLogger("sayso")
_UNKNOWN_ROUND = "it goes on with a call that was not approved here, or with other arguments"
_GONE = "The server ended before it answered. Whether the call has run is not known."
_CANCELLED = "the client has cancelled it; whether it has run is not known"
_MOST_TRIES = 5  # of a call whose answer another process uses up first


class Relay:
    """Stands between one client and one server."""

    def __init__(self, gate: Gate, name: str, *, client: Outlet, server: Outlet, hold: float) -> None:
        self._gate = gate
        self._name = name
        self._client = client
        self._server = server
        self._hold = hold
        self._repeated = RepeatedCalls(gate)
        self._listing = Listing(gate, name, self.ask_server)
        self._calls: dict[str, asyncio.Task[None]] = {}  # by the client's id, until they are answered
        self._answers: dict[str, asyncio.Future[bytes]] = {}  # of requests at the server that are read here
        self._listings: set[str] = set()  # ids of the client's own requests for a listing
        self._rounds: dict[tuple[str, str], tuple[ToolCall, Approved]] = {}  # by state and digest: approved, and asked
        self._client_name = ""

    # What the client says.

    async def from_client(self, line: bytes) -> None:
        """Take a line of the client."""
        try:
            message, line = messages.read_client_message(line)
        except MessageError as error:
            refused = {"code": -32600, "message": f"refused by sayso: {error}"}
            await self._client.send_message({"jsonrpc": "2.0", "id": None, "error": refused})
            return
        method, key = message.get("method"), messages.id_text(message.get("id"))
        if method == messages.CALL:
            if key is None:
                _LOG.warning("a call without an id did not reach the server: nobody could get its result")
            else:
                await self._begin(key, message)
            return
        if method == "notifications/cancelled" and self._cancel(message):
            return  # the server has never heard of it
        if method == "initialize":
            name = messages.part(message, "params", "clientInfo", "name")
            self._client_name = name if isinstance(name, str) else ""
        if method == "tools/list" and key is not None:
            self._listings.add(key)
        await self._server.send(line)

    async def _begin(self, key: str, message: dict[str, Any]) -> None:
        if key in self._calls or key in self._answers:
            refused = {"code": -32600, "message": f"refused by sayso: another request has the id {key}"}
            await self._client.send_message({"jsonrpc": "2.0", "id": None, "error": refused})
            return
        task = asyncio.create_task(self._call(key, message))
        self._calls[key] = task
        task.add_done_callback(lambda _: self._calls.pop(key, None))

    def _cancel(self, message: Mapping[str, Any]) -> bool:
        """Cancel a call; true if the server has not got it."""
        key = messages.id_text(messages.part(message, "params", "requestId"))
        answer = self._answers.get(key or "")
        if answer is not None and not answer.done():
            answer.cancel()
            return False
        task = self._calls.get(key or "")
        return task is not None and task.cancel()

    async def client_gone(self) -> None:
        """Withdraw the questions of all calls that wait: nobody wants their results any more."""
        waiting = [task for key, task in self._calls.items() if key not in self._answers]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # What the server says.

    async def from_server(self, line: bytes) -> None:
        """Take a line of the server."""
        head = messages.read_server_head(line)
        if head is None and (batch := messages.read_batch(line)):
            for each in batch:
                await self.from_server(each)
            return
        key = None if head is None else messages.response_id(head)
        answer = self._answers.get(key or "")
        if answer is not None and not answer.done():
            answer.set_result(line)
            return
        if key is not None and key in self._listings:
            self._listings.discard(key)
            line = await self._listing.filtered(line)
        if head is not None and head.method == "notifications/tools/list_changed":
            self._listing.is_current = False
        await self._client.send(line)

    async def server_gone(self) -> None:
        """Answer all calls: those that wait do not run any more, and of the others nobody knows."""
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(ToolError(_GONE))
        await self.client_gone()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    async def ask_server(self, key: str, line: bytes) -> bytes:
        """Send a request and return the server's response; it does not reach the client."""
        answer = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            await self._server.send(line)
            return await answer
        finally:
            del self._answers[key]

    # One call.

    async def _call(self, key: str, message: dict[str, Any]) -> None:
        """Decide about a call, and run it at the server; whatever breaks before that, it does not run."""
        try:
            result = await self._decide_and_run(key, message)
        except (MessageError, StoreError, ToolError) as error:
            result = messages.refusal_result(f"Not executed: {error}.")
        except Exception as error:  # noqa: BLE001 - a call that cannot be decided about must be answered, too
            _LOG.exception("a call could not be decided about, so it does not run")
            result = messages.refusal_result(f"Not executed: sayso has failed ({type(error).__name__}).")
        if isinstance(result, bytes):
            await self._client.send(result)
        elif result is not None:
            await self._client.send_message({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _decide_and_run(self, key: str, message: dict[str, Any]) -> bytes | dict[str, Any] | None:
        """Return the server's line, or a result of the relay; None for a call that was cancelled at the server."""
        params: dict[str, Any] = message["params"]
        name = params["name"]
        definition = await self._listing.definition(name, params.get("_meta") or {})
        if definition is None:
            return messages.refusal_result(f"Not executed: the server lists no tool {name!r}.")
        args: dict[str, Any] = params.get("arguments") or {}
        messages.refuse_other_case(args, self._listing.arguments_of(name), "the arguments have")
        call = build_call(
            f"{self._name}.{name}",
            args,
            agent=self._client_name or None,
            run=f"mcp:{self._name}",
            session=self._gate.session_for(""),
            schema_hash=definition.hash,
        )
        state = params.get("requestState")
        if own_round(state) is None and (state is not None or params.get("inputResponses") is not None):
            return await self._go_on(key, message, call)
        waiting = Waiting.of(params, self._hold, self._client.send_message)
        call, outcome = await self._decide(call, self._gate.tighten(self._listing.rules(name)), waiting)
        if isinstance(outcome, Pending):
            await self._repeated.expect_return(outcome.request)
            return waiting.not_yet(outcome.request)
        if isinstance(outcome, Denied):
            return messages.refusal_result(outcome.message)
        if outcome.by == "answer":
            await self._listing.definitions.trust(name)
        if own_round(state) is not None:
            params.pop("requestState")
            params.pop("inputResponses", None)
        return await self._run(key, message, call, outcome)

    async def _decide(
        self, call: ToolCall, rules: ToolRules, waiting: Waiting
    ) -> tuple[ToolCall, Approved | Denied | Pending]:
        """Decide about a call, which has an id of its own only if nobody has to be asked; else that of its question."""
        settled = self._gate.controller.adapter.decide_fast(call, rules)
        if settled is not None:
            return call, settled
        for _ in range(_MOST_TRIES):
            async with self._repeated.numbered(call) as named:
                outcome = await waiting.decide(self._gate, named, rules)
            if not (isinstance(outcome, Denied) and outcome.cause == "replayed"):
                return named, outcome
        raise StoreError("other processes have used up its answers")

    async def _go_on(self, key: str, message: dict[str, Any], call: ToolCall) -> bytes | dict[str, Any] | None:
        """Pass on a further round of an approved call, once: the server has asked the client something in between."""
        approved = self._rounds.pop((str(message["params"].get("requestState") or ""), call.digest()), None)
        if approved is None:
            return messages.refusal_result(f"Not executed: {_UNKNOWN_ROUND}.")
        return await self._run(key, message, *approved)

    async def _run(
        self, key: str, message: dict[str, Any], call: ToolCall, outcome: Approved
    ) -> bytes | dict[str, Any] | None:
        asked = call.digest()  # of the client's own arguments, with which it comes back
        message["params"]["arguments"] = thaw(outcome.args)
        run = GuardedRun(self._gate, call, outcome).begin()
        try:
            line = await self.ask_server(key, messages.encode(message))
        except asyncio.CancelledError:
            run.raised(ToolError(_CANCELLED))
            return None
        except ToolError as error:
            run.raised(error)
            return messages.refusal_result(str(error))
        response: dict[str, Any] = json.loads(line)
        if messages.part(response, "result", "resultType") == "input_required":
            self._rounds[str(messages.part(response, "result", "requestState") or ""), asked] = call, outcome
            run.suspend()
            return line
        _record(run, response)
        return _told(line, response, call, outcome)


def _record(run: GuardedRun, response: Mapping[str, Any]) -> None:
    """Audit what came of a call."""
    text = _text_of(response) or json.dumps(response.get("error"))
    if "result" in response and not messages.part(response, "result", "isError"):
        run.returned(text)
    else:
        run.raised(ToolError(text))


def _content_of(response: Mapping[str, Any]) -> list[Any]:
    content = messages.part(response, "result", "content")
    return cast("list[Any]", content) if isinstance(content, list) else []


def _text_of(response: Mapping[str, Any]) -> str:
    texts = [messages.part(each, "text") for each in _content_of(response)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _told(line: bytes, response: dict[str, Any], call: ToolCall, outcome: Approved) -> bytes:
    """Return the response with what a person has edited and noted."""
    result = response.get("result")
    if not has_feedback(outcome) or not isinstance(result, dict):
        return line
    words = add_feedback(_text_of(response), outcome, call_text(call.tool, outcome.args))
    others = [each for each in _content_of(response) if not isinstance(messages.part(each, "text"), str)]
    told = {**cast("dict[str, Any]", result), "content": [{"type": "text", "text": words}, *others]}
    return messages.encode({**response, "result": told})
