"""Bearer tokens: identity, roles, expiry and rights of a program or a browser; only hashes are stored.

Tests: tests/server/test_identity.py
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Literal, get_args
from urllib.parse import quote

import msgspec

from sayso.core.model import new_id
from sayso.errors import ConfigurationError

# An agent asks; an approver answers; a session is a signed-in browser; a link signs a browser in, once.
TokenKind = Literal["agent", "approver", "session", "link"]
EVERY_PROJECT = "*"

_TEXT = re.compile(r"sayso_(agent|approver|session|link)_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The stored record of a token: everything but its secret."""

    id: str
    kind: TokenKind
    name: str
    hash: str
    made_at: float
    project: str = ""
    roles: tuple[str, ...] = ()
    opens: str = ""  # the request that a link opens
    expires_at: float | None = None

    def is_expired(self, now: float) -> bool:
        """Whether the token has expired."""
        return self.expires_at is not None and now >= self.expires_at

    def is_for(self, project: str) -> bool:
        """Whether the token is valid for that project."""
        return self.project in {project, EVERY_PROJECT}


def make(
    kind: TokenKind,
    name: str,
    *,
    now: float,
    seconds: float | None = None,
    project: str = "",
    roles: tuple[str, ...] = (),
    opens: str = "",
) -> tuple[Token, str]:
    """Return a new token and its text, which is shown once and never stored.

    Raises:
        ConfigurationError: a name, role or project is malformed, or an agent is to belong to every project.
    """
    if kind not in get_args(TokenKind):
        raise ConfigurationError(f"there are no tokens of the kind {kind!r}; use one of {get_args(TokenKind)}")
    if kind == "agent" and project == EVERY_PROJECT:
        raise ConfigurationError("an agent belongs to one project; name it")
    words = [("name", name), *(("role", role) for role in roles)]
    words += [("project", project)] if project not in {"", EVERY_PROJECT} else []
    for what, word in words:
        if not _NAME.fullmatch(word):
            raise ConfigurationError(f"the {what} {word!r} must be letters, digits and any of . _ @ + -, and not long")
    import secrets  # noqa: PLC0415 - rarely needed, so not loaded with every store

    token_id = new_id()
    text = f"sayso_{kind}_{token_id}_{secrets.token_urlsafe(32)}"
    token = Token(
        id=token_id,
        kind=kind,
        name=name,
        hash=_hash(text),
        made_at=now,
        project=project,
        roles=tuple(dict.fromkeys(roles)),
        opens=opens,
        expires_at=None if seconds is None else now + seconds,
    )
    return token, text


def parse_token_id(text: str) -> str | None:
    """Return the id in a token's text, or None if the text is not a token."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found[2]


def is_valid(token: Token, text: str, now: float) -> bool:
    """Whether this is the token's text, and the token has not expired."""
    return hmac.compare_digest(token.hash, _hash(text)) and not token.is_expired(now)


def sign_in_address(url: str, text: str, opens: str = "") -> str:
    """Return the URL of a sign-in link; it names the request, for a browser that is signed in already."""
    return f"{url.rstrip('/')}/sign-in?code={text}" + (f"&opens={quote(opens, safe='')}" if opens else "")


def _hash(text: str) -> str:
    # No salt or key stretching: 256 random bits cannot be guessed.
    return hashlib.sha256(text.encode()).hexdigest()
