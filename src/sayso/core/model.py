"""Data model: frozen, keyword-only records, free of any framework.

They are msgspec structs, which cost a tenth of a frozen dataclass to build; the hot path builds several. They are
kept out of the garbage collector's rounds (`gc=False`): nothing in them points back at them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Never, cast, get_args

import msgspec
from msgspec.structs import force_setattr

try:
    from uuid import uuid7  # pyright: ignore - Python 3.14 and later
except ImportError:
    from uuid_utils import uuid7

from sayso.core.approvers import Approvers, Seen
from sayso.core.canonical import digest, freeze, parse_args
from sayso.errors import (
    ApprovalBlocked,
    ApprovalCancelled,
    ApprovalDenied,
    ApprovalError,
    ApprovalTimeout,
    ToolError,
)

Approval = Literal["none", "required", "blocked", "once_per_session"]
Status = Literal["open", "approved", "denied", "expired", "withdrawn", "used"]
Cause = Literal["blocked", "failed", "refused", "expired", "withdrawn", "replayed", "changed", "forged"]
Remember = Literal["none", "session", "always"]
ScopeKind = Literal["call", "prefix", "folder", "tool"]
By = Literal["policy", "mode", "memory", "answer"]
Result = Literal["returned", "raised"]
Step = Literal[
    "asked", "voted", "approved", "denied", "expired", "withdrawn", "claimed",
    "allowed", "stopped", "returned", "raised", "revoked", "pruned",
]  # fmt: skip


_SHORT = 80
_MOST_USES = 1_000_000_000  # more than anybody means, and less than any store can count


def new_id() -> str:
    """Return an id that sorts by the time of its making."""
    return cast("str", uuid7().hex)  # pyright: ignore[reportUnknownMemberType]


def _call_key(run: str, call_id: str) -> str:
    return f"{run}\0{call_id}" if run else call_id


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a verdict comes from: the source, the key inside it, and the line if it is a file."""

    source: str
    key: str
    line: int | None = None

    def __str__(self) -> str:
        """Read as `sayso.yaml:12 tools.shell`."""
        return f"{self.source}:{self.line} {self.key}" if self.line else f"{self.source} {self.key}"


class ApprovalPresentation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Hints for showing a request well; never what is authorised."""

    title: str | None = None
    content: str | None = None
    content_type: str | None = None
    language: str | None = None
    diff: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a call would do, told before it does: for people to see, and for their yes to rest on.

    `basis` stands for what the call would find, such as the hash of a file that it changes. Whoever says yes says it to
    that: if it has changed when the call is to run, the call is refused. `payload` is what a remembered answer goes by,
    in place of the arguments.
    """

    description: str | None = None
    presentation: ApprovalPresentation | None = None
    metadata: Mapping[str, Any] | None = None
    payload: Mapping[str, Any] | None = None
    basis: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts of one call: what an agent wants to run, with which arguments."""

    tool: str
    args: Mapping[str, Any] = {}
    call_id: str = msgspec.field(default_factory=new_id)
    session: str = ""
    run: str = ""  # the run of the agent that made up the call id, which other runs may make up again
    agent_path: tuple[str, ...] = ()
    schema_hash: str = ""

    def __post_init__(self) -> None:
        """Freeze the arguments: what happens to the caller's dict later changes nothing."""
        force_setattr(self, "args", freeze(self.args))

    @property
    def key(self) -> str:
        """What names this call in its session."""
        return _call_key(self.run, self.call_id)

    @classmethod
    def from_json(cls, tool: str, arguments: str | None, **facts: Any) -> ToolCall:  # noqa: ANN401 - the other fields
        """Build a call from a model's JSON arguments, read strictly."""
        return cls(tool=tool, args=parse_args(arguments or "{}"), **facts)

    def digest(self) -> str:
        """Hash what an approval is bound to: tool, schema and every argument."""
        return self.digest_with(None)

    def digest_with(self, basis: str | None) -> str:
        """Hash the same together with what an approval rests on besides, if there is such a thing."""
        parts = (self.tool, self.schema_hash) if basis is None else (self.tool, self.schema_hash, basis)
        return digest("sayso/call/1", *parts, args=freeze(self.args))


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A set of calls that one remembered decision could cover.

    One with `parts` is remembered as those, one by one; a call that falls into it needs all of them.
    """

    kind: ScopeKind
    key: str
    label: str
    parts: tuple[Scope, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """What is remembered of it."""
        return tuple(part.key for part in self.parts) or (self.key,)


class Deed(NamedTuple):
    """What a call does, as it was judged: an operation on a real path, or a line for the shell."""

    operation: Literal["read", "write", "delete", "list", "shell"]
    target: str
    folder: str = ""  # where a line runs


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the rules say about a call, why, and which rule said it."""

    approval: Approval
    reason: str
    rule: Rule | None = None
    description: str | None = None
    payload: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    presentation: ApprovalPresentation | None = None
    expires: float | None = None
    remember: bool = True
    scope: ScopeKind = "call"
    scopes: tuple[Scope, ...] = ()  # between this exact call and the whole tool, narrow to broad
    approvers: Approvers | None = None
    basis: str | None = None  # see `Preview`
    deeds: tuple[Deed, ...] = ()  # what was judged, and nothing else may be done
    fails: bool = False  # the tool itself says that the call would fail; it is blocked for that

    def __post_init__(self) -> None:
        """Refuse a word that nothing would act on."""
        if self.approval not in get_args(Approval):
            raise ValueError(f"Verdict: `approval` must be one of {get_args(Approval)}, not {self.approval!r}")

    @property
    def asks(self) -> bool:
        """Whether a person has to be asked."""
        return self.approval in {"required", "once_per_session"}


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The answer to a request: yes or no, with which arguments, for how long, and by whom."""

    approved: bool
    note: str | None = None
    override_args: Mapping[str, Any] | None = None
    remember: Remember = "none"
    scope: ScopeKind | None = None
    uses: int | None = None
    until: float | None = None
    who: str | None = None
    channel: str | None = None
    decided_at: float | None = None

    def __post_init__(self) -> None:
        """Refuse an answer that could be read in two ways."""
        if type(self.approved) is not bool:
            _reject(f"`approved` must be True or False, not {self.approved!r}")
        if self.remember not in get_args(Remember):
            _reject(f"`remember` must be 'none', 'session' or 'always', not {self.remember!r}")
        if self.scope is not None and self.scope not in get_args(ScopeKind):
            _reject(f"`scope` must be one of the request's offered kinds, not {self.scope!r}")
        if self.remember == "none" and (self.uses is not None or self.until is not None or self.scope):
            _reject("`uses`, `until` and `scope` say how to remember; set `remember` to 'session' or 'always' too")
        if self.uses is not None and (type(self.uses) is not int or not 1 <= self.uses <= _MOST_USES):
            _reject(f"`uses` must be a whole number from 1 up, not {self.uses!r}, and no more than {_MOST_USES}")
        if self.until is not None and not math.isfinite(self.until):
            _reject(f"`until` must be a time in seconds since the epoch, not {self.until!r}")
        self._check_details()

    def _check_details(self) -> None:
        for name, word in (("note", self.note), ("who", self.who), ("channel", self.channel)):
            if word is not None and type(word) is not str:
                _reject(f"`{name}` must be a text, not {word!r}")
        if self.override_args is not None:
            if not isinstance(self.override_args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
                _reject(f"`override_args` must be a mapping of all arguments, not {self.override_args!r}")
            force_setattr(self, "override_args", freeze(self.override_args))


def _reject(problem: str) -> Never:
    raise TypeError("ApprovalDecision: " + problem)


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A question to a person: one row, which every front end shows and the first answer closes.

    A tool that asks by itself gives `tool_name`, `description` and `payload` (or `args`); the controller fills in
    the rest when it opens the request.
    """

    tool_name: str
    args: Mapping[str, Any] = {}
    description: str = ""
    payload: Mapping[str, Any] | None = None
    presentation: ApprovalPresentation | None = None
    metadata: Mapping[str, Any] | None = None
    summary: str | None = None
    tool_call_id: str = ""
    id: str = ""
    session: str = ""
    run: str = ""
    agent_path: tuple[str, ...] = ()
    schema_hash: str = ""
    parameters: str = ""  # the JSON Schema of the tool's arguments, as JSON, for whoever edits them
    digest: str = ""
    reason: str = ""
    rule: Rule | None = None
    approval: Approval = "required"
    scopes: tuple[Scope, ...] = ()
    remember_max: float | None = None
    approvers: Approvers | None = None
    project: str = ""  # whose it is, where a hub keeps the requests of several
    asked_by: str = ""  # whoever this is cannot answer
    asked_at: float = 0.0
    expires_at: float | None = None
    status: Status = "open"
    seen: tuple[Seen, ...] = ()
    votes: tuple[ApprovalDecision, ...] = ()  # each yes so far, where one is not enough
    decision: ApprovalDecision | None = None
    used_at: float | None = None
    result: Result | None = None

    def __post_init__(self) -> None:
        """Freeze what an answer will be bound to."""
        force_setattr(self, "args", freeze(self.args))
        if self.payload is not None:
            force_setattr(self, "payload", freeze(self.payload))
        if self.metadata is not None:
            force_setattr(self, "metadata", freeze(self.metadata))

    def __str__(self) -> str:
        """Read as the call that it asks about; `repr` shows control characters as codes, and long values are cut."""
        values = ((name, _safe_repr(value)) for name, value in self.args.items())
        facts = (f"{name}={shown if len(shown) <= _SHORT else shown[:_SHORT] + '…'}" for name, shown in values)
        return f"{self.tool_name}({', '.join(facts)})"

    @property
    def tool(self) -> str:
        """The tool's name, by the word that `ToolCall` uses."""
        return self.tool_name

    @property
    def call_id(self) -> str:
        """The call's id, by the word that `ToolCall` uses."""
        return self.tool_call_id

    @property
    def key(self) -> str:
        """What names the call in its session."""
        return _call_key(self.run, self.tool_call_id)

    @property
    def state(self) -> str:
        """The status in words for people: says when a result never came."""
        if self.status != "used":
            return self.status
        return f"used, {self.result or 'result unknown'}"

    def call(self) -> ToolCall:
        """Return the call that this request asks about."""
        return ToolCall(
            tool=self.tool_name,
            args=self.args,
            call_id=self.tool_call_id,
            session=self.session,
            run=self.run,
            agent_path=self.agent_path,
            schema_hash=self.schema_hash,
        )


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # a number so long that Python refuses to write it
        return "a very long number"


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A decision that stands for later calls: it can be listed, it ends, and it can be revoked."""

    id: str
    tool: str
    scope: Scope
    decision: ApprovalDecision
    session: str | None
    remembered_at: float
    expires_at: float | None = None
    uses_left: int | None = None
    schema_hash: str = ""
    request_id: str | None = None
    project: str = ""

    def covers(self, session: str, now: float, schema_hash: str = "", project: str = "") -> bool:
        """Whether this still stands for a call of that session, at that time, of a tool with that schema."""
        return (
            self.project == project
            and (self.session is None or self.session == session)
            and (self.expires_at is None or now < self.expires_at)
            and (self.schema_hash == schema_hash or not self.schema_hash or not schema_hash)
        )


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the edge says; never to be read as true or false."""

    def __bool__(self) -> Never:
        # A `Denied` would be truthy: `if outcome:` must not run a refused call.
        raise TypeError(f"{type(self).__name__} has no truth value; use isinstance(outcome, Approved)")


class Approved(_Outcome, frozen=True, kw_only=True, gc=False):
    """The call may run, once, with exactly these arguments."""

    args: Mapping[str, Any]
    by: By
    reason: str
    request_id: str | None = None
    remembered: Remembered | None = None
    decision: ApprovalDecision | None = None
    basis: str | None = None  # what was found when this was decided, and has to be found when it runs
    deeds: tuple[Deed, ...] = ()  # what it was decided about


class Denied(_Outcome, frozen=True, kw_only=True, gc=False):
    """The call must not run, and why."""

    cause: Cause
    reason: str
    note: str | None = None
    request_id: str | None = None

    @property
    def message(self) -> str:
        """What the model is told: enough to stop it from trying the same again."""
        if self.cause == "failed":
            return f"Not executed: {self.reason}. Nobody was asked about it; correct the call, or do something else."
        note = f" Their note: {self.note}" if self.note else ""
        undecided = self.cause in {"expired", "withdrawn"}
        kind = "Nobody has decided" if undecided else "This is a decision, not a failure of the tool"
        return f"Not executed: {self.reason}. {kind}; do not retry this call unchanged.{note}"

    def error(self, tool: str) -> ApprovalError | ToolError:
        """Return the exception for callers that want one."""
        if self.cause == "failed":
            return ToolError(self.reason)
        reason = f"{self.reason} (note: {self.note})" if self.note else self.reason
        return _ERRORS[self.cause](tool, reason, cause=self.cause, note=self.note)


_ERRORS: dict[str, Callable[..., ApprovalError]] = {
    "blocked": ApprovalBlocked,
    "refused": ApprovalDenied,
    "expired": ApprovalTimeout,
    "withdrawn": ApprovalCancelled,
    "replayed": ApprovalDenied,
    "changed": ApprovalDenied,
    "forged": ApprovalDenied,
}


class Ask(_Outcome, frozen=True, kw_only=True):
    """A person has to be asked."""


class Pending(_Outcome, frozen=True, kw_only=True):
    """The question is open and waits for its answer."""

    request: ApprovalRequest


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step in the life of a call: what hooks are told and what the audit writes down.

    It is about a request, where there is one, else about a call that nobody was asked about.
    """

    at: float
    step: Step
    about: ToolCall | ApprovalRequest
    verdict: Verdict | None = None
    outcome: Approved | Denied | None = None
    result: object = None
    seconds: float | None = None

    @property
    def call(self) -> ToolCall:
        """The call."""
        return self.about.call() if isinstance(self.about, ApprovalRequest) else self.about

    @property
    def request(self) -> ApprovalRequest | None:
        """The request, if this is a step of one."""
        return self.about if isinstance(self.about, ApprovalRequest) else None
