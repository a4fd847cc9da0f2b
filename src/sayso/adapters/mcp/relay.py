"""The relay: decides about each tool call of a client, has the server run it, and records what came of it.

It knows no transport: an `Exchange` takes its requests to the server, and its words to the client.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec.structs import replace

from sayso.adapters.kit import (
    GuardedRun,
    RepeatedCalls,
    add_feedback,
    build_call,
    call_text,
    fill_defaults,
    has_feedback,
)
from sayso.adapters.mcp import messages
from sayso.adapters.mcp.messages import MessageError
from sayso.adapters.mcp.tool_listing import argument_names
from sayso.adapters.mcp.waiting import Waiting, own_round
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied, Pending
from sayso.errors import CanonicalError, ConfigurationError, StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.kit import Gate
    from sayso.adapters.mcp.pins import Definition
    from sayso.adapters.mcp.tool_listing import Listing
    from sayso.core.model import ToolCall
    from sayso.policy.policy import ToolRules

_LOG = logging.getLogger("sayso")
_UNKNOWN_ROUND = "it goes on with a call that was not approved here, or with other arguments"
_MOVED = "The server has changed this tool while the question was open, so it was not executed. Make the call again."
_MOST_TRIES = 5  # of a call whose answer another process uses up first
_MOST_ROUNDS = 1000  # calls that servers have interrupted and clients have not gone on with


class CallAbandoned(ToolError):
    """The client has cancelled a call that the server had, or is gone: nobody wants its response."""

    def __init__(self) -> None:
        super().__init__("the client has cancelled it, or is gone; whether it has run is not known")


class Exchange(Protocol):
    """One client's way to the server and back."""

    @property
    def client_name(self) -> str:
        """What the client calls itself."""
        ...

    @property
    def whose(self) -> str:
        """What tells apart callers to whom the server may list other tools."""
        ...

    async def tell(self, message: object) -> None:
        """Send the client a message beside the response."""
        ...

    async def ask(self, request: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> bytes:
        """Send the server a request, of a tool with this schema, and return its response.

        Raises:
            CallAbandoned: the client has cancelled it.
            ToolError: there is none; says whether the server can have got the request.
        """
        ...


class Relay:
    """Stands before one server."""

    def __init__(self, gate: Gate, name: str, listing: Listing, *, hold: float) -> None:
        """Guard the server's tools, as `name.tool`; a call waits `hold` seconds for its answer."""
        self._gate = gate
        self._name = name
        self._hold = hold
        self._repeated = RepeatedCalls(gate)
        self._rounds: dict[tuple[str, ...], tuple[ToolCall, Approved]] = {}  # approved, and to be gone on with
        self.listing = listing

    async def answer(self, message: dict[str, Any], exchange: Exchange) -> bytes | None:
        """Return the response to a call; whatever breaks before it runs, it does not run.

        None for a call that was cancelled when the server had it: then there is no response.
        """
        try:
            result = await self._decide_and_run(message, exchange)
        except (CanonicalError, ConfigurationError, MessageError, StoreError, ToolError) as error:
            result = messages.refusal_result(f"Not executed: {error}.")
        except Exception as error:  # noqa: BLE001 - a call that cannot be decided about must be answered, too
            _LOG.exception("a call could not be decided about, so it does not run")
            result = messages.refusal_result(f"Not executed: sayso has failed ({type(error).__name__}).")
        if isinstance(result, dict):
            return messages.encode({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return result

    async def _decide_and_run(self, message: dict[str, Any], exchange: Exchange) -> bytes | dict[str, Any] | None:
        """Return the server's response, or a result of the relay."""
        params: dict[str, Any] = message["params"]
        name = params["name"]
        definition = await self._definition(params, exchange)
        if definition is None:
            return messages.refusal_result(f"Not executed: the server lists no tool {name!r}.")
        args: dict[str, Any] = params.get("arguments") or {}
        messages.refuse_other_case(args, argument_names(definition), "the arguments have")
        messages.refuse_ambiguous(args)
        call = build_call(
            f"{self._name}.{name}",
            fill_defaults(args, definition.schema),
            agent=messages.client_name(params) or exchange.client_name or None,
            run=f"mcp:{self._name}",
            session=self._gate.session_for(messages.client_session(params)),
            schema_hash=definition.hash,
        )
        call = replace(call, annotations=self.listing.believed(definition))
        state = params.get("requestState")
        if own_round(state) is None and (state is not None or params.get("inputResponses") is not None):
            return await self._go_on(message, call, definition, exchange)
        waiting = Waiting.of(params, self._hold, exchange.tell)
        call, outcome = await self._decide(call, self._gate.tighten(self.listing.rules(definition)), waiting)
        if isinstance(outcome, Pending):
            await self._repeated.expect_return(outcome.request)
            return waiting.not_yet(outcome.request)
        if isinstance(outcome, Denied):
            return messages.refusal_result(outcome.message)
        if own_round(state) is not None:
            params.pop("requestState")
            params.pop("inputResponses", None)
        if outcome.by == "answer" and not await self._is_as_shown(definition, params, exchange):
            return _moved(GuardedRun(self._gate, call, outcome))
        return await self._run(message, call, outcome, definition, exchange)

    async def _definition(self, params: Mapping[str, Any], exchange: Exchange) -> Definition | None:
        return await self.listing.definition(params["name"], params.get("_meta") or {}, exchange.ask, exchange.whose)

    async def _is_as_shown(self, definition: Definition, params: Mapping[str, Any], exchange: Exchange) -> bool:
        """Trust a tool that a person has allowed, if it is still the one that they were shown."""
        now = await self._definition(params, exchange)
        if now is None or now.hash != definition.hash:
            return False
        await self.listing.definitions.trust(definition)
        return True

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

    async def _go_on(
        self, message: dict[str, Any], call: ToolCall, definition: Definition, exchange: Exchange
    ) -> bytes | dict[str, Any] | None:
        """Pass on a further round of an approved call, once: the server has asked the client something in between."""
        approved = self._rounds.pop(_round_key(message["params"], call, exchange), None)
        if approved is None:
            return messages.refusal_result(f"Not executed: {_UNKNOWN_ROUND}.")
        return await self._run(message, *approved, definition, exchange)

    async def _run(
        self, message: dict[str, Any], call: ToolCall, outcome: Approved, definition: Definition, exchange: Exchange
    ) -> bytes | dict[str, Any] | None:
        approved = {**message, "params": {**message["params"], "arguments": thaw(outcome.args)}}
        run = GuardedRun(self._gate, call, outcome).begin()
        try:
            line = await exchange.ask(approved, definition.schema)
        except CallAbandoned as error:
            run.raised(error)
            return None
        except ToolError as error:
            run.raised(error)
            return messages.refusal_result(str(error))
        except BaseException:
            run.raised(CallAbandoned())
            raise
        response = messages.read_object(line)
        if messages.part(response, "result", "resultType") == "input_required":
            self._keep_round(_round_key(response["result"], call, exchange), call, outcome)
            run.suspend()
            return line
        _record(run, response)
        return _told(line, response, call, outcome)

    def _keep_round(self, key: tuple[str, ...], call: ToolCall, outcome: Approved) -> None:
        if len(self._rounds) >= _MOST_ROUNDS:
            del self._rounds[next(iter(self._rounds))]
        self._rounds[key] = call, outcome


def _round_key(said: Mapping[str, Any], call: ToolCall, exchange: Exchange) -> tuple[str, ...]:
    """Return what a further round of a call is known by: the server's state, the client, and what it has asked for."""
    return str(said.get("requestState") or ""), call.session, exchange.whose, call.digest()


def _moved(run: GuardedRun) -> dict[str, Any]:
    """Record an approved call as not run, since the tool is another one by now."""
    run.begin().raised(ToolError(_MOVED))
    return messages.refusal_result(_MOVED)


def _record(run: GuardedRun, response: Mapping[str, Any]) -> None:
    """Audit what came of a call."""
    text = _text_of(response) or messages.shown(response.get("error"))
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
