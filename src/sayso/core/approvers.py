"""Approvers of a request: quorum, role, escalation; and presence, the people that view it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


class Escalation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who else may answer, and after how many seconds without an answer."""

    role: str
    after: float


class Approvers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Who has to say yes: how many different people, and in which roles; and when they are reminded of it."""

    count: int = 1
    roles: tuple[str, ...] = ()  # all of them
    remind: float | None = None  # seconds
    escalate: Escalation | None = None

    @property
    def needs_identity(self) -> bool:
        """Whether a yes counts only from somebody whose identity was checked."""
        return self.count > 1 or bool(self.roles)

    def entitles(self, roles: Collection[str], waited: float) -> bool:
        """Whether somebody in these roles may say yes, after so many seconds."""
        late = self.escalate is not None and waited >= self.escalate.after and self.escalate.role in roles
        return late or set(self.roles) <= set(roles)

    def __str__(self) -> str:
        """Read as `2 people in the role ops`."""
        people = "1 person" if self.count == 1 else f"{self.count} people"
        return f"{people} in the role {' and '.join(self.roles)}" if self.roles else people


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Somebody had a request before them, without having answered it yet."""

    who: str
    channel: str
    at: float


def same_person(one: str | None, other: str | None) -> bool:
    """Whether two names stand for one person: a capital letter makes nobody somebody else."""
    return (one or "").casefold() == (other or "").casefold()
