"""Pydantic schemas of request and response bodies, as the OpenAPI document publishes them.

Responses are written by `sayso.core.json_codec`; these schemas describe them, and a test compares both.

Tests: tests/server/test_openapi.py
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict, JsonValue

from sayso.core.conversation import Role
from sayso.core.model import DescribedBy, Remember, ScopeKind, Status
from sayso.core.ports import STORABLE_TEXT

Args = dict[str, Any]
Number = Annotated[float, Field(allow_inf_nan=False)]


class BodyModel(BaseModel):
    """Base of request bodies: unknown keys and values of another type are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _has(name: str, schema: JsonDict) -> JsonDict:
    return {"required": [name], "properties": {name: schema}}


def _lacks(*names: str) -> JsonDict:
    return {"properties": {name: {"type": "null"} for name in names}}


# What `answering` checks in every answer; what depends on the request, no schema can say.
_GIVEN: JsonDict = {"not": {"type": "null"}}
_RULES_OF_ANSWERS: list[list[JsonValue]] = [
    [_lacks("until"), _lacks("seconds")],
    [{"properties": {"outcome": {"not": {"const": "modify"}}}}, _has("args", _GIVEN)],
    [_lacks("args"), _has("outcome", {"enum": ["modify", "proceed_once"]}), _has("approved", {"const": True})],
    [_lacks("args"), _lacks("scope"), _has("scope", {"const": "call"})],
    [
        {"properties": {"outcome": {"not": {"const": "proceed_always"}}}},
        {"properties": {"remember": {"not": {"const": "none"}}}},
    ],
    [
        _lacks("scope", "uses", "until", "seconds"),
        _has("remember", {"enum": ["session", "always"]}),
        _has("outcome", {"const": "proceed_always"}),
    ],
]


class AnswerModel(BodyModel):
    """An answer to a request: `outcome` or `approved`, and not both."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [one], "properties": {one: _GIVEN, other: {"type": "null"}}}
                for one, other in (("outcome", "approved"), ("approved", "outcome"))
            ],
            "allOf": [{"anyOf": each} for each in _RULES_OF_ANSWERS],
        }
    )

    outcome: Literal["proceed_once", "proceed_always", "cancel", "modify"] | None = None
    approved: bool | None = Field(default=None, description="In place of `outcome`.")
    note: str | None = Field(
        default=None, max_length=10_000, pattern=STORABLE_TEXT, description="The agent is told it."
    )
    args: Args | None = Field(default=None, description="All arguments, where they are to differ from those shown.")
    remember: Remember | None = None
    scope: ScopeKind | None = Field(default=None, description="For which calls it is remembered.")
    uses: int | None = Field(default=None, ge=1, le=1_000_000, description="For how many more calls.")
    until: Number | None = Field(default=None, ge=0, le=1e11, description="Until when, in seconds since 1970.")
    seconds: Number | None = Field(default=None, gt=0, le=1e10, description="For how long, in place of `until`.")


class SignInModel(BodyModel):
    """The code of a link that signs a browser in, once."""

    code: str = Field(max_length=500)


class ProblemModel(BaseModel):
    """What is wrong, in one sentence; some have more facts."""

    title: str
    status: int
    detail: str


class RuleModel(BaseModel):
    """Where the question comes from."""

    source: str
    key: str
    line: int | None


class PresentationModel(BaseModel):
    """Hints for showing a request well; never what is authorised."""

    title: str | None
    content: str | None
    content_type: str | None
    language: str | None
    diff: str | None


class ScopeModel(BaseModel):
    """A set of calls that an answer can be remembered for."""

    kind: ScopeKind
    label: str


class EscalationModel(BaseModel):
    """Who else may answer, after so many seconds."""

    role: str
    after: float


class ApproversModel(BaseModel):
    """Who has to say yes."""

    count: int
    roles: list[str]
    remind: float | None
    escalate: EscalationModel | None


class DecisionModel(BaseModel):
    """An answer that was given."""

    approved: bool
    who: str | None
    channel: str | None
    decided_at: float | None
    note: str | None
    args: Args | None
    remember: Remember
    scope: ScopeKind | None
    uses: int | None
    until: float | None
    unattended: bool = Field(description="Nobody could be asked, so this is no person's answer.")


class SeenModel(BaseModel):
    """Somebody who has the request before them."""

    who: str
    channel: str
    at: float


class ConversationMessageModel(BaseModel):
    """A message before the call, as the agent tells it; nothing rests on it."""

    role: Role = Field(description="As the agent tells it. A caller is the agent that called this one.")
    text: str = Field(description="Redacted, and cut where it is long.")
    gap: bool = Field(description="Whether messages before this one are left out.")


class RequestModel(BaseModel):
    """A question to a person, as it stands."""

    id: str
    status: Status
    state: str
    asked_at: float
    expires_at: float | None
    project: str
    asked_by: str
    session: str
    run: str
    call_id: str
    agent_path: list[str]
    tool: str
    args: Args
    payload: Args | None
    parameters: Any
    description: str
    described_by: DescribedBy = Field(description="Whose words `description` is; `default` if neither gave one.")
    summary: str | None
    reason: str
    rule: RuleModel | None
    approval: str
    presentation: PresentationModel | None
    scopes: list[ScopeModel]
    remember_max: float | None
    conversation: list[ConversationMessageModel]
    approvers: ApproversModel | None
    votes: list[DecisionModel]
    seen: list[SeenModel]
    decision: DecisionModel | None
    used_at: float | None
    result: str | None


class RememberedModel(BaseModel):
    """A decision that stands for later calls."""

    id: str
    tool: str
    scope: ScopeModel
    project: str
    session: str | None
    remembered_at: float
    expires_at: float | None
    uses_left: int | None
    request_id: str | None
    decision: DecisionModel


class AnsweredModel(RequestModel):
    """The request as it stands after an answer, what is remembered of it, and what else it has answered."""

    remembered: list[RememberedModel]
    also_answered: list[str] = Field(
        description="The ids of the other open requests that the remembered answer covers: they got it too."
    )


class CoveredRequestModel(BaseModel):
    """An open request, in short."""

    id: str
    tool: str
    agent_path: list[str]
    asked_by: str


class CoveredModel(BaseModel):
    """The other open requests that a remembered answer would close too."""

    count: int
    items: list[CoveredRequestModel] = Field(description="The oldest of them, at most 100.")


class PageModel(BaseModel):
    """A part of a list."""

    items: list[RequestModel]
    next: str | None = Field(description="Pass it as `before` (or `after`, where status is pending) for more.")
    point: int = Field(description="Where to begin with `GET /events` to miss nothing.")
    searched: int = Field(description="How many requests were compared with the filter for this part.")


class WaitingModel(BaseModel):
    """A request in the original REST form: its tool, its arguments and the question."""

    tool: str
    args: Args
    message: str


class AllRemembered(BaseModel):
    """Everything that is remembered."""

    items: list[RememberedModel]


class RunModel(BaseModel):
    """A suspended run of an agent."""

    id: str
    agent: str
    framework: str
    session: str
    requests: list[str] = Field(description="The ids of the requests that it waits for.")
    calls: list[str] = Field(description="The ids of the external calls whose results it waits for.")
    parked_at: float
    project: str
    parked_by: str = Field(description="The agent's name, by its token.")


class RunPage(BaseModel):
    """A part of the parked runs, oldest first."""

    items: list[RunModel]
    next: str | None = Field(description="Pass it as `after` for more.")


class AuditPage(BaseModel):
    """A part of the audit, oldest first."""

    items: list[dict[str, Any]]
    next: int | None = Field(description="Pass it as `after` for more.")


class AuditLine(BaseModel):
    """An entry as it was written, and the hash that seals it."""

    number: int
    line: str
    hash: str


class AuditEnd(BaseModel):
    """A place in the chain."""

    number: int
    hash: str


class AuditLines(BaseModel):
    """A part of the chain, oldest first, for who wants to check it."""

    items: list[AuditLine]
    next: int | None = Field(description="Pass it as `after` for more.")
    start: AuditEnd = Field(description="The entry before the first that is kept.")
    end: AuditEnd = Field(description="The last entry.")
    whole: bool = Field(description="False if entries of other projects are left out.")


class AuditState(BaseModel):
    """How far the audit goes, and whether it is whole."""

    entries: int
    hash: str
    verified: bool
    problem: str | None


class Hour(BaseModel):
    """What happened in an hour, which begins at `at`."""

    at: float
    asked: int
    approved: int
    denied: int
    expired: int
    withdrawn: int


class Within(BaseModel):
    """How many answers took up to so many seconds, and more than those before."""

    up_to: float | None
    answers: int


class Spans(BaseModel):
    """How long people took to answer, in seconds."""

    p50: float | None
    p90: float | None
    max: float | None
    within: list[Within]


class Counts(BaseModel):
    """How requests ended, and within how many seconds half and nine tenths of the answers came."""

    asked: int
    approved: int
    denied: int
    expired: int
    withdrawn: int
    p50: float | None
    p90: float | None


class ToolCount(Counts):
    """The requests of a tool."""

    tool: str


class AgentCount(Counts):
    """The requests of an agent."""

    agent: str = Field(description="The path of agents, with ` > ` between them; empty if it is not known.")


class PersonCount(BaseModel):
    """The answers of a person; where several people have to say yes, each yes counts."""

    who: str = Field(description="Empty if the person gave no name.")
    answered: int
    approved: int
    denied: int
    p50: float | None
    p90: float | None


class Busiest(BaseModel):
    """The hour, beginning at `at`, in which most was asked."""

    at: float
    asked: int


class StatsModel(BaseModel):
    """Numbers about the requests that were asked in that time."""

    by_hour: list[Hour]
    busiest: Busiest | None
    waiting: Spans
    by_tool: list[ToolCount]
    by_agent: list[AgentCount]
    by_person: list[PersonCount]
    complete: bool = Field(description="False if there were too many requests, and only the newest were counted.")


class About(BaseModel):
    """The hub itself."""

    version: str


class Me(BaseModel):
    """Who the token stands for."""

    name: str
    kind: str
    project: str
    roles: list[str]
    hub: About


class LinkModel(BaseModel):
    """Who a link signs in, and the id of the request that it leads to, or nothing."""

    name: str
    opens: str


class SignedIn(BaseModel):
    """What the link leads to: the id of a request, or nothing."""

    opens: str


class HealthModel(BaseModel):
    """Whether the hub works."""

    status: str
