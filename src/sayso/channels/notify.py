"""Notifications, one-way: chat, mail and push through Apprise, and signed webhooks for programs.

A message reports an open request and may link to it; answers come through other channels. Its text, for people, has the
tool and the agent, and of the arguments only those that the owner names; its parts, for programs, have all, redacted.

Tests: tests/server/notices/test_scheduler.py
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from sayso.channels.display.request_lines import asker
from sayso.channels.display.sanitize import visible
from sayso.core.backoff import backoff
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.core.redaction import redact, redact_text
from sayso.errors import ConfigurationError

try:
    import httpx2
    from apprise import Apprise, NotifyFormat
    from standardwebhooks import Webhook
except ImportError as error:
    raise ImportError("notifications are not installed; run `pip install sayso[notify]`") from error

Event = Literal["asked", "reminder", "escalated", "closed"]

_LOG = logging.getLogger("sayso")
_TITLES: dict[Event, str] = {
    "asked": "{who} wants to run {tool}",
    "reminder": "{who} still waits to run {tool}",
    "escalated": "nobody answered: {who} wants to run {tool}",
    "closed": "{tool} of {who}: {status}",
}
_LONGEST, _LONGEST_TITLE = 1000, 200  # characters; the full text is in the inbox
_SECONDS = 20.0
_ATTEMPTS = 3
# What chat services turn into a link, a mention of many, or hidden words, though the message is plain text: nothing of
# it belongs into a name; a value may have an address, but not under other words.
_MARKUP_OF_NAMES = re.compile(r"\[redacted\](?!\()|[\[\]<*`|~]|(?<=:)/(?=/)|(?<=\bwww)\.|(?<!\w)@", re.IGNORECASE)
_MARKUP_OF_VALUES = re.compile(
    r"(?<=\])\(|<(?=[!@#]|https?:)|(?<!\w)@(?=(?:all|channel|everyone|here)\b)", re.IGNORECASE
)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, redacted, sanitised and of limited size: `title` and `text` for people, parts for programs.

    What chat services take for markup has its code in the words for people, and stays in the parts.
    """

    event: Event
    request_id: str
    project: str
    title: str
    text: str
    id: str  # idempotency key: the same for the same event, from any sender and attempt
    status: str
    tool: str
    agent: str
    description: str
    reason: str
    rule: str | None
    args: Mapping[str, Any]
    args_cut: bool  # whether `args` leave something out, for their size
    asked_at: float
    expires_at: float | None
    link: str | None = None

    def with_link(self, link: str) -> Message:
        """Return a copy with a link to the request."""
        return replace(self, text=f"{self.text}\nanswer: {link}", link=link)


def build_message(
    request: ApprovalRequest, event: Event = "asked", *, at: float | None = None, arguments: Sequence[str] = ()
) -> Message:
    """Build the notification of a request; `at` distinguishes reminders, `arguments` names what the text shows."""
    agent = asker(request) or "an agent"
    title = _TITLES[event].format(who=agent, tool=request.tool_name, status=request.status)
    args: dict[str, Any] = redact(request.args)
    cut = len(_json(args)) > _LONGEST
    return Message(
        event=event,
        request_id=request.id,
        project=request.project,
        title=_without_markup(_shown(title, _LONGEST_TITLE), _MARKUP_OF_NAMES),
        text=_without_markup(visible(_truncate(_describe_arguments(args, arguments), _LONGEST)), _MARKUP_OF_VALUES),
        id=f"msg_{request.id}_{event}" if at is None else f"msg_{request.id}_{event}_{at:.0f}",
        status=request.status,
        tool=_shown(request.tool_name, _LONGEST_TITLE),
        agent=_shown(agent, _LONGEST_TITLE),
        description=_shown(request.description, _LONGEST),
        reason=_shown(request.reason, _LONGEST),
        rule=None if request.rule is None else _shown(str(request.rule), _LONGEST),
        args=_sanitize(_cut_values(args) if cut else args),
        args_cut=cut,
        asked_at=request.asked_at,
        expires_at=request.expires_at,
    )


def _describe_arguments(args: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the named arguments in words; no description and no reason, for both may quote the others."""
    named = {name: args[name] for name in names if name in args}
    if not named:
        return "arguments: see the inbox" if args else "no arguments"
    return f"arguments: {_json(named)}{'' if len(named) == len(args) else '; others: see the inbox'}"


def _shown(value: str, longest: int) -> str:
    return visible(_truncate(redact_text(value), longest))


def _without_markup(text: str, markup: re.Pattern[str]) -> str:
    return markup.sub(lambda found: found[0] if len(found[0]) > 1 else f"⟨U+{ord(found[0]):04X}⟩", text)


def _truncate(value: str, longest: int) -> str:
    return value if len(value) <= longest else f"{value[:longest]}…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _cut_values(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first arguments, long values as the beginning of their JSON text: no more than the text shows."""
    found, left = dict[str, Any](), _LONGEST
    for name, value in args.items():
        text = _json(value)
        left -= len(name)
        if left <= 0:
            break
        found[name] = value if len(text) <= left else _truncate(text, left)
        left -= len(text)
    return found


def _sanitize(value: Any) -> Any:  # noqa: ANN401 - redacted JSON of any shape
    match value:
        case str():
            return visible(value)
        case dict():
            return _sanitize_mapping(cast("dict[str, Any]", value))
        case list():
            return [_sanitize(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _sanitize_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        shown = visible(name)
        while shown in found:  # another name looks the same: neither may hide the other
            shown += "'"
        found[shown] = _sanitize(item)
    return found


class Destination(Protocol):
    """Protocol of a notification service."""

    async def send(self, message: Message) -> None:
        """Deliver a message; raises `OSError` if that failed."""
        ...


class AppriseService:
    """Chat, mail or push by an Apprise URL such as `ntfy://topic` or `mailto://…`."""

    def __init__(self, url: str) -> None:
        """Check the URL; it often holds a password, so no error or log quotes it."""
        self._apprise = Apprise()
        if not self._apprise.add(url):  # pyright: ignore[reportUnknownMemberType] - half typed
            scheme = visible(url.partition(":")[0])
            raise ConfigurationError(f"{scheme}:… is no notification URL that Apprise knows; see its list of services")

    async def send(self, message: Message) -> None:
        """Send a message, as plain text."""
        if not await asyncio.to_thread(self._notify, message):
            raise ConnectionError("the service did not take it")

    def _notify(self, message: Message) -> bool:
        return bool(
            self._apprise.notify(  # pyright: ignore[reportUnknownMemberType] - half typed
                body=message.text, title=message.title, body_format=NotifyFormat.TEXT, timeout=_SECONDS
            )
        )


class SignedWebhook:
    """Webhook for a program; the signature covers id, time and body, as Standard Webhooks specifies."""

    def __init__(self, url: str, secret: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or (parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}):
            raise ConfigurationError(f"the webhook {url!r} must be https: what it carries is nobody else's business")
        try:
            self._signer = Webhook(secret)
        except (ValueError, RuntimeError) as error:
            raise ConfigurationError(
                f"the secret of the webhook {url!r} cannot be used ({error}); write `whsec_` followed by base64"
            ) from error
        self._url = url
        self._host = parts.hostname  # for the log: the rest of an address may hold a secret

    async def send(self, message: Message) -> None:
        """POST a message, with a few retries under the same id (idempotency key)."""
        body = json.dumps({"type": f"approval.{message.event}", "data": msgspec.to_builtins(message)})
        async with httpx2.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client:
            for attempt, pause in enumerate(islice(backoff(first=1.0), _ATTEMPTS), 1):
                try:
                    answer = await client.post(self._url, content=body, headers=self._headers(message.id, body))
                    answer.raise_for_status()
                except httpx2.HTTPError as error:
                    if attempt == _ATTEMPTS:
                        raise ConnectionError(
                            f"the webhook at {self._host} did not take it: {_cause(error)}"
                        ) from error
                    await asyncio.sleep(pause)
                else:
                    return

    def _headers(self, message_id: str, body: str) -> dict[str, str]:
        now = datetime.now(UTC)
        return {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body),
        }


def _cause(error: httpx2.HTTPError) -> str:
    """Return why a webhook did not take a message, without its address."""
    if isinstance(error, httpx2.HTTPStatusError):
        return f"status {error.response.status_code}"
    return type(error).__name__


async def send_to_all(message: Message, destinations: Sequence[Destination]) -> None:
    """Deliver a message to all destinations concurrently; failures are logged and delay no other."""
    await asyncio.gather(*(_send_or_log(message, each) for each in destinations))


async def _send_or_log(message: Message, destination: Destination) -> None:
    try:
        await destination.send(message)
    except OSError as error:
        _LOG.warning("nobody was told of %s by a %s: %s", message.request_id, type(destination).__name__, error)


class NotifyChannel:
    """Channel that notifies: `ApprovalController(channels=[NotifyChannel("ntfy://my-topic")], store="sayso.db")`."""

    def __init__(self, *destinations: str | Destination, arguments: Sequence[str] = ()) -> None:
        """Check the destinations; `arguments` names the arguments whose values people may read there."""
        if isinstance(arguments, str):
            raise ConfigurationError(f"`arguments` is a list of names; write [{arguments!r}]")
        self._destinations = [AppriseService(each) if isinstance(each, str) else each for each in destinations]
        self._arguments = tuple(arguments)

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Notify of a request; the answer comes through another channel."""
        await send_to_all(build_message(request, arguments=self._arguments), self._destinations)
        return None
