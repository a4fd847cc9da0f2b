"""Data model: frozen, keyword-only records, free of any framework.

Records are msgspec structs: building one costs a tenth of a frozen dataclass, and the hot path builds several. The
garbage collector does not track them (`gc=False`), because they hold no reference cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Never, cast, get_args

import msgspec
from msgspec.structs import force_setattr

try:
    from uuid import uuid7  # pyright: ignore - Python 3.14 and later
except ImportError:
    from uuid_utils import uuid7

from sayso.core.approvers import Approvers, Seen
from sayso.core.canonical import digest, freeze, parse_args
from sayso.core.conversation import ConversationMessage
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
Cause = Literal["blocked", "failed", "refused", "unattended", "expired", "withdrawn", "replayed", "changed", "forged"]
Remember = Literal["none", "session", "always"]
ScopeKind = Literal["call", "prefix", "folder", "tool"]
By = Literal["policy", "mode", "memory", "answer"]
DescribedBy = Literal["tool", "policy", "default"]
Result = Literal["returned", "raised"]
Step = Literal[
    "asked", "voted", "approved", "denied", "expired", "withdrawn", "claimed",
    "allowed", "stopped", "returned", "raised", "revoked", "pruned",
]  # fmt: skip


_SHORT = 80
_MOST_USES = 1_000_000_000  # below the integer limit of every store


def new_id() -> str:
    """Return a new id; ids sort by creation time."""
    return cast("str", uuid7().hex)  # pyright: ignore[reportUnknownMemberType]


def _call_key(run: str, call_id: str) -> str:
    return f"{run}\0{call_id}" if run else call_id


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Origin of a verdict: the source, the key inside it, and the line if the source is a file."""

    source: str
    key: str
    line: int | None = None

    def __str__(self) -> str:
        """Return text such as `sayso.yaml:12 tools.shell`."""
        return f"{self.source}:{self.line} {self.key}" if self.line else f"{self.source} {self.key}"


class ApprovalPresentation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Display hints for a request; never part of what is authorised.

    `type` and `metadata` are for the host's own callback, as in other libraries; a content of type `diff` is a diff.
    """

    title: str | None = None
    content: str | None = None
    content_type: str | None = None
    language: str | None = None
    diff: str | None = None
    type: str | None = None
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        """Freeze the metadata, and take a diff under its other name."""
        force_setattr(self, "metadata", freeze(self.metadata))
        if self.type == "diff" and self.diff is None:
            force_setattr(self, "diff", self.content)


class Preview(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Preview of a call's effect, shown to the approver before the call runs.

    `basis` is a fingerprint of the state that the call would act on, such as the hash of the file that it changes. The
    approval is bound to it: if the state has changed by the time the call is to run, the call is refused. `payload`
    replaces the arguments as the key of a remembered decision.
    """

    description: str | None = None
    presentation: ApprovalPresentation | None = None
    metadata: Mapping[str, Any] | None = None
    payload: Mapping[str, Any] | None = None
    basis: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call that an agent wants to make: the tool, the arguments, and the context of the call."""

    tool: str
    args: Mapping[str, Any] = {}
    call_id: str = msgspec.field(default_factory=new_id)
    session: str = ""
    run: str = ""  # the agent run that generated the call id; call ids are unique only within a run
    agent_path: tuple[str, ...] = ()
    schema_hash: str = ""
    annotations: Mapping[str, Any] = {}  # what the owner believes a server says of the tool, for conditions alone

    def __post_init__(self) -> None:
        """Freeze the arguments, so that later changes to the caller's dict have no effect."""
        force_setattr(self, "args", freeze(self.args))

    @property
    def key(self) -> str:
        """The call's key, unique in its session."""
        return _call_key(self.run, self.call_id)

    @classmethod
    def from_json(cls, tool: str, arguments: str | None, **facts: Any) -> ToolCall:  # noqa: ANN401 - the other fields
        """Build a call from a model's JSON arguments, parsed strictly."""
        return cls(tool=tool, args=parse_args(arguments or "{}"), **facts)

    def digest(self) -> str:
        """Return the digest that an approval is bound to: tool, schema and every argument."""
        return self.digest_with(None)

    def digest_with(self, basis: str | None) -> str:
        """Return the digest with the basis of the approval included, if it has one (see `Preview`)."""
        parts = (self.tool, self.schema_hash) if basis is None else (self.tool, self.schema_hash, basis)
        return digest("sayso/call/1", *parts, args=freeze(self.args))


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The set of calls that one remembered decision covers.

    A scope with `parts` is stored as its parts; a call in that scope needs all of them.
    """

    kind: ScopeKind
    key: str
    label: str
    parts: tuple[Scope, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which the decision is stored."""
        return tuple(part.key for part in self.parts) or (self.key,)


class Deed(NamedTuple):
    """One judged effect of a call: an operation on a real path, or a shell line."""

    operation: Literal["read", "write", "delete", "list", "shell"]
    target: str
    folder: str = ""  # the working directory of a shell line


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The policy's result for a call: the approval, the reason and the deciding rule."""

    approval: Approval
    reason: str
    rule: Rule | None = None
    description: str | None = None
    described_by: DescribedBy = "policy"  # the policy itself sets it: a tool cannot speak as the policy
    payload: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    presentation: ApprovalPresentation | None = None
    expires: float | None = None
    remember: bool = True
    scope: ScopeKind = "call"
    scopes: tuple[Scope, ...] = ()  # those between the exact call and the whole tool, narrow to broad
    approvers: Approvers | None = None
    basis: str | None = None  # see `Preview`
    deeds: tuple[Deed, ...] = ()  # the judged effects; the tool may have no others
    fails: bool = False  # blocked because the tool itself reports that the call would fail

    def __post_init__(self) -> None:
        """Refuse an unknown approval."""
        if self.approval not in get_args(Approval):
            raise ValueError(f"Verdict: `approval` must be one of {get_args(Approval)}, not {self.approval!r}")

    @property
    def asks(self) -> bool:
        """Whether a person has to be asked."""
        return self.approval in {"required", "once_per_session"}


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A person's answer to a request: yes or no, edited arguments, how long to remember it, and who gave it."""

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
    unattended: bool = False  # nobody could be asked; then it is no person's answer

    def __post_init__(self) -> None:
        """Refuse an ambiguous answer."""
        if type(self.approved) is not bool:
            _reject(f"`approved` must be True or False, not {self.approved!r}")
        if type(self.unattended) is not bool or (self.unattended and self.approved):
            _reject("`unattended` is True or False, and never goes with a yes")
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
    """A question to a person: one row in the store, shown by every front end and closed by the first answer.

    A tool that asks by itself gives `tool_name`, `description` and `payload` (or `args`); the controller fills in
    the rest when it opens the request.
    """

    tool_name: str
    args: Mapping[str, Any] = {}
    description: str = ""
    described_by: DescribedBy = "tool"  # whose words the description is; "default" if neither gave one
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
    parameters: str = ""  # the JSON Schema of the tool's arguments, as JSON, for edits
    digest: str = ""
    reason: str = ""
    rule: Rule | None = None
    approval: Approval = "required"
    scopes: tuple[Scope, ...] = ()
    remember_max: float | None = None
    conversation: tuple[ConversationMessage, ...] = ()  # what was said before; no answer rests on it
    approvers: Approvers | None = None
    project: str = ""  # the tenant, at a hub
    asked_by: str = ""  # this person or agent cannot answer the request
    asked_at: float = 0.0
    expires_at: float | None = None
    status: Status = "open"
    seen: tuple[Seen, ...] = ()
    votes: tuple[ApprovalDecision, ...] = ()  # the approvals so far, if the quorum is more than one
    decision: ApprovalDecision | None = None
    used_at: float | None = None
    result: Result | None = None

    def __post_init__(self) -> None:
        """Freeze the arguments, payload and metadata that an answer will be bound to."""
        force_setattr(self, "args", freeze(self.args))
        if self.payload is not None:
            force_setattr(self, "payload", freeze(self.payload))
        if self.metadata is not None:
            force_setattr(self, "metadata", freeze(self.metadata))

    def __str__(self) -> str:
        """Return the call as text; `repr` escapes control characters, and long values are truncated."""
        values = ((name, _safe_repr(value)) for name, value in self.args.items())
        facts = (f"{name}={shown if len(shown) <= _SHORT else shown[:_SHORT] + '…'}" for name, shown in values)
        return f"{self.tool_name}({', '.join(facts)})"

    @property
    def tool(self) -> str:
        """Alias of `tool_name`, as `ToolCall` names it."""
        return self.tool_name

    @property
    def tool_args(self) -> Mapping[str, Any]:
        """Alias of `args`, as other libraries name them."""
        return self.args

    @property
    def call_id(self) -> str:
        """Alias of `tool_call_id`, as `ToolCall` names it."""
        return self.tool_call_id

    @property
    def key(self) -> str:
        """The call's key, unique in its session."""
        return _call_key(self.run, self.tool_call_id)

    @property
    def state(self) -> str:
        """The status for display, with the result of a used request."""
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
    except ValueError:  # an integer over Python's limit of digits
        return "a very long number"


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A decision that is valid for later calls too; it can be listed and revoked, and it may expire."""

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
        """Whether the decision is valid for a call of that session, at that time, of a tool with that schema."""
        return (
            self.project == project
            and (self.session is None or self.session == session)
            and (self.expires_at is None or now < self.expires_at)
            and (self.schema_hash == schema_hash or not self.schema_hash or not schema_hash)
        )


class ParkedRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A suspended run in the store: whose it is, and what it waits for; its sealed state lies beside it."""

    id: str
    agent: str = ""  # the name of the outermost agent
    framework: str = ""
    session: str = ""
    requests: tuple[str, ...] = ()  # the ids of the requests that it waits for
    calls: tuple[str, ...] = ()  # the ids of the external calls whose results it waits for
    parked_at: float = 0.0
    project: str = ""  # the tenant, at a hub
    parked_by: str = ""  # the agent's name at a hub, by its token

    @property
    def name(self) -> str:
        """The name under which its state is parked; at a hub, that begins with the namespace of the agent."""
        return f"{self.project}/{self.parked_by}/{self.id}" if self.parked_by else self.id


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a review; it has no truth value."""

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
    basis: str | None = None  # must be unchanged when the call runs; see `Preview`
    deeds: tuple[Deed, ...] = ()  # the judged effects


class Denied(_Outcome, frozen=True, kw_only=True, gc=False):
    """The call must not run, for this reason."""

    cause: Cause
    reason: str
    note: str | None = None
    request_id: str | None = None
    by: By | None = None  # set where the mode or a remembered decision refused

    @property
    def message(self) -> str:
        """The message for the model, worded so that it does not retry the same call."""
        if self.cause == "failed":
            return f"Not executed: {self.reason}. Nobody was asked about it; correct the call, or do something else."
        note = f" Their note: {self.note}" if self.note else ""
        undecided = self.cause in {"expired", "withdrawn", "unattended"}
        kind = "Nobody has decided" if undecided else "This is a decision, not a failure of the tool"
        opening = "Not executed again" if self.cause == "replayed" else "Not executed"
        return f"{opening}: {self.reason}. {kind}; do not retry this call unchanged.{note}"

    def error(self, tool: str) -> ApprovalError | ToolError:
        """Return the exception for callers that raise."""
        if self.cause == "failed":
            return ToolError(self.reason)
        reason = f"{self.reason} (note: {self.note})" if self.note else self.reason
        return _ERRORS.get(self.cause, ApprovalDenied)(tool, reason, cause=self.cause, note=self.note)


_ERRORS: dict[str, type[ApprovalError]] = {
    "blocked": ApprovalBlocked,
    "expired": ApprovalTimeout,
    "withdrawn": ApprovalCancelled,
}


class Ask(_Outcome, frozen=True, kw_only=True):
    """A person has to be asked."""


class Pending(_Outcome, frozen=True, kw_only=True):
    """The request is open and waits for its answer."""

    request: ApprovalRequest


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step in the life of a call, as hooks receive it and the audit records it.

    `about` is the request if there is one, otherwise the call.
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
        """The request, if the entry is about one."""
        return self.about if isinstance(self.about, ApprovalRequest) else None
