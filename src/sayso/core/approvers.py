"""Approvers of a request: quorum, roles and escalation; and presence, its viewers."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


class Escalation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Escalation: a further role that may answer, and after how many seconds without an answer."""

    role: str
    after: float


class Approvers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Quorum of a request: how many different people have to approve, in which roles, and when they are reminded."""

    count: int = 1
    roles: tuple[str, ...] = ()  # each approver needs all of them
    remind: float | None = None  # seconds
    escalate: Escalation | None = None

    @property
    def needs_identity(self) -> bool:
        """Whether an approval counts only from a person with a verified identity."""
        return self.count > 1 or bool(self.roles)

    def entitles(self, roles: Collection[str], waited: float) -> bool:
        """Whether a person in these roles may approve, this many seconds after the request was opened."""
        late = self.escalate is not None and waited >= self.escalate.after and self.escalate.role in roles
        return late or set(self.roles) <= set(roles)

    def __str__(self) -> str:
        """Return text such as `2 people in the role ops`."""
        people = "1 person" if self.count == 1 else f"{self.count} people"
        return f"{people} in the role {' and '.join(self.roles)}" if self.roles else people


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A view of an open request by a person (presence)."""

    who: str
    channel: str
    at: float


def same_person(one: str | None, other: str | None) -> bool:
    """Whether two names are those of one person; the comparison ignores case."""
    return (one or "").casefold() == (other or "").casefold()
