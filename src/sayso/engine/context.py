"""Context variables: the active controller, the running call and its approval, and the conversation before it.

Tests: tests/adapters/test_function.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from sayso.core.canonical import freeze, is_same_value
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.core.conversation import ConversationMessage, Role
    from sayso.core.model import Approved, By, Deed, ToolCall
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy, ToolRules

T = TypeVar("T")
_CONTROLLER: ContextVar[ApprovalController | None] = ContextVar("sayso_controller", default=None)
_PROCESS_WIDE: list[ApprovalController] = []  # the last one is for threads and tasks that have none of their own
_PRE_APPROVED: ContextVar[list[_PreApproval]] = ContextVar("sayso_pre_approved")
Messages = Callable[[], "Iterable[ConversationMessage]"]
_SESSION: ContextVar[str] = ContextVar("sayso_session", default="")
_MESSAGES: ContextVar[list[Messages] | None] = ContextVar("sayso_messages", default=None)  # the newest first


def reset(variable: ContextVar[T], token: Token[T]) -> None:
    """Reset a variable; in another context than that of the token, which has a value of its own, leave it as it is.

    A framework may call the hook after a tool in another task or thread than the one before it.
    """
    with contextlib.suppress(ValueError):
        variable.reset(token)


def current_controller() -> ApprovalController | None:
    """Return the active controller, if any."""
    here = _CONTROLLER.get()
    if here is None and _PROCESS_WIDE:
        return _PROCESS_WIDE[-1]
    return here


@contextlib.contextmanager
def activate(controller: ApprovalController, *, everywhere: bool) -> Generator[ApprovalController]:
    """Activate this controller for the block."""
    token = _CONTROLLER.set(controller)
    if everywhere:
        _PROCESS_WIDE.append(controller)
    try:
        yield controller
    finally:
        if everywhere:
            _PROCESS_WIDE.remove(controller)
        _CONTROLLER.reset(token)


class _CurrentCall(NamedTuple):
    """The running call, the controller of the agents inside it, and the parked state that it resumes with."""

    controller: ApprovalController
    call: ToolCall | None
    by: By
    state: list[bytes]  # parked state of the agent inside it, until `delegate` takes it
    tightening: tuple[Policy, ...]
    delegated: list[str | None]  # the agents that its tool has called
    starts: list[bool]  # one for each time that its framework has told of the start of the tool


_CURRENT_CALL: ContextVar[_CurrentCall | None] = ContextVar("sayso_current_call", default=None)


def current_call() -> _CurrentCall | None:
    """Return the running call, if any."""
    return _CURRENT_CALL.get()


def outer_controller() -> ApprovalController | None:
    """Return the controller of the agent whose tool is running, which a nested agent asks too."""
    running = _CURRENT_CALL.get()
    return None if running is None else running.controller


def agent_path(agent: str | None = None) -> tuple[str, ...]:
    """Return the names of the agents whose tool is running, the outermost first, and of this agent inside them."""
    running = _CURRENT_CALL.get()
    outer = () if running is None or running.call is None else running.call.agent_path
    return (*outer, agent) if agent else outer


def tightening(own: Policy | None = None) -> tuple[Policy, ...]:
    """Return the policies of the nested agents, `own` being the innermost; they only restrict that of the outermost."""
    running = _CURRENT_CALL.get()
    if running is None:
        return ()
    known = (running.controller.policy, *running.tightening)
    return running.tightening if own is None or own in known else (*running.tightening, own)


def tighten(tool_rules: ToolRules, own: Policy | None = None) -> ToolRules:
    """Return a tool's own rules, tightened by the policies of the nested agents."""
    found = tightening(own)
    return replace(tool_rules, tightening=found) if found else tool_rules


class nested_call:  # noqa: N801 - reads as a statement: `with nested_call(controller, call):`
    """Mark the block as the tool of this call, in its session; without a call, bind it to this controller only."""

    __slots__ = ("_current", "_messages", "_tokens")

    def __init__(
        self,
        controller: ApprovalController,
        call: ToolCall | None = None,
        *,
        by: By = "policy",
        state: bytes | None = None,
        tightening: tuple[Policy, ...] = (),
        messages: Messages | None = None,
    ) -> None:
        self._current = _CurrentCall(controller, call, by, [] if state is None else [state], tightening, [], [])
        self._messages = None if messages is None else [messages]

    def __enter__(self) -> None:
        call = self._current.call
        messages = None if self._messages is None else _MESSAGES.set(self._messages)
        session = _SESSION.set(call.session) if call is not None and call.session else None
        self._tokens = _CURRENT_CALL.set(self._current), _CONTROLLER.set(self._current.controller), messages, session

    def __exit__(self, *_: object) -> None:
        call, controller, messages, session = self._tokens
        self._current.starts.append(True)  # a task that the tool has left running does not start it any more
        if session is not None:
            reset(_SESSION, session)
        reset(_CURRENT_CALL, call)
        reset(_CONTROLLER, controller)
        if messages is not None and self._messages is not None:
            reset(_MESSAGES, messages)
            self._messages.clear()  # also for tasks that the tool has left running


def activate_unless_nested(controller: ApprovalController) -> contextlib.AbstractContextManager[None]:
    """Bind the block to this controller, unless it is inside a call, whose controller then stays in charge."""
    return nested_call(controller) if _CURRENT_CALL.get() is None else contextlib.nullcontext()


class Grant(NamedTuple):
    """The grant that a tool runs under: the outcome, and the files of sayso itself."""

    outcome: Approved
    own_files: tuple[str, ...]

    def rest_on(self, basis: str) -> bool:
        """Whether this is the fingerprint that the decision rests on; true if it rests on none."""
        return self.outcome.basis in {None, basis}


CURRENT_GRANT: ContextVar[Grant | None] = ContextVar("sayso_grant", default=None)


def current_grant(deed: Deed | None = None, /, **args: object) -> Grant | None:
    """Return the grant of the running tool, if it covers this deed and these arguments."""
    found = CURRENT_GRANT.get()
    if found is None or (deed is not None and deed not in found.outcome.deeds):
        return None
    given = found.outcome.args
    same = all(is_same_value(freeze({"": value})[""], given.get(name)) for name, value in args.items())
    return found if same else None


def current_messages() -> Messages | None:
    """Return the function that collects the messages before the current call, the newest first, if there is one."""
    found = _MESSAGES.get()
    return found[0] if found else None


class messages_from:  # noqa: N801 - reads as a statement: `with messages_from(collect):`
    """Let the requests that the block opens show messages; `collect` is called only when one is opened."""

    __slots__ = ("_collect", "_current", "_token")

    def __init__(self, collect: Messages) -> None:
        self._collect = collect

    def __enter__(self) -> None:
        self._current = [self._collect]  # a new one each time: the block may be entered again
        self._token = _MESSAGES.set(self._current)

    def __exit__(self, *_: object) -> None:
        _MESSAGES.reset(self._token)
        self._current.clear()  # also for tasks that began in the block


def conversation(
    messages: Sequence[ConversationMessage] | Callable[[], Sequence[ConversationMessage]],
) -> contextlib.AbstractContextManager[None]:
    """Let approvers read what was said before the calls of the block; a context manager.

    Args:
        messages: the messages, oldest first; or a function that returns them, called only when a request is opened.

    The policy limits how much is shown, and secrets are redacted. No decision and no answer rests on the messages.
    """
    if not callable(messages) and (isinstance(messages, str) or not isinstance(messages, Sequence)):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
        raise ConfigurationError(
            f"conversation got {type(messages).__name__}; pass a list of ConversationMessage, or a function of one"
        )
    return messages_from(lambda: reversed(list(messages() if callable(messages) else messages)))


def prompt_role() -> Role:
    """Return the author of an agent's prompt: the agent whose tool is running, else the user."""
    running = _CURRENT_CALL.get()
    return "user" if running is None or running.call is None else "caller"


def current_session() -> str:
    """Return the session of the resumed run or of the running call, or an empty text outside both."""
    return _SESSION.get()


@contextlib.contextmanager
def resumed_session(session: str) -> Generator[None]:
    """Run the block in a session that began elsewhere."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


class _PreApproval(NamedTuple):
    """A call that an adapter has approved, just before it calls the function, which may be marked itself."""

    controller: ApprovalController
    tool: str
    args: Mapping[str, Any]


class pre_approve:  # noqa: N801 - reads as a statement: `with pre_approve(controller, "pay", args):`
    """Pre-approve a call for the block: the first call that equals it does not ask again."""

    __slots__ = ("_approval", "_token")

    def __init__(self, controller: ApprovalController, tool: str, args: Mapping[str, Any]) -> None:
        self._approval = [_PreApproval(controller, tool, args)]

    def __enter__(self) -> None:
        self._token = _PRE_APPROVED.set(self._approval)

    def __exit__(self, *_: object) -> None:
        self._approval.clear()  # also for tasks that the tool has left running
        reset(_PRE_APPROVED, self._token)


def consume_pre_approval(controller: ApprovalController, call: ToolCall, defaults: Mapping[str, Any]) -> bool:
    """Consume the pre-approval of exactly this call; true once.

    The pre-approved arguments may omit defaults; everything else must be equal.
    """
    waiting = _PRE_APPROVED.get([])
    try:
        approval = waiting[0]
        if approval.controller is not controller or approval.tool != call.tool:
            return False
        return is_same_value(freeze({**defaults, **approval.args}), call.args) and bool(waiting.pop())
    except IndexError:  # there is none, or another thread has consumed it
        return False
