"""Settings file of notices: recipients with their Apprise services, and programs with their webhooks.

Tests: tests/server/notices/test_scheduler.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sayso.channels.notify import AppriseService, SignedWebhook
from sayso.config.read_file import FileSpec, read_bytes
from sayso.config.yaml_toml import Document, read_yaml
from sayso.core.tokens import EVERY_PROJECT
from sayso.errors import ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import list_of, record, text, validate
from sayso.server.notices.scheduler import Recipient

_FILE_SPEC = FileSpec(
    what="who is told of questions",
    missing="name a file that says who is told of questions",
    empty="write who is told, such as `people: [{name: ann, to: [ntfy://topic]}]`",
    start="write a mapping with `people`, `webhooks` or both",
    largest=1_000_000,
)
_SHAPE = record(
    "who is told of questions",
    {
        "people": list_of(
            "people",
            record(
                "a person",
                {
                    "name": text("who it is; the link in a message signs them in under this name"),
                    "roles": list_of("roles", text("a role")),
                    "project": text("only questions of this project; left out, of all"),
                    "arguments": list_of("arguments", text("the name of an argument that messages may show")),
                    "to": list_of("where", text("an Apprise URL, or env:NAME for one in the environment")),
                },
                required=("name", "to"),
            ),
        ),
        "webhooks": list_of(
            "programs",
            record(
                "a program",
                {
                    "url": text("an https address"),
                    "secret": text("what both sides know, or env:NAME for one in the environment"),
                    "project": text("only questions of this project; left out, of all"),
                },
                required=("url", "secret"),
            ),
        ),
    },
)


def read_notices(path: Path) -> list[Recipient]:
    """Read the recipients from a settings file.

    Raises:
        PolicyError: the mistakes in the file, each with line and column.
    """
    document = read_yaml(read_bytes(path, _FILE_SPEC), str(path), _FILE_SPEC)
    problems = list(validate(_SHAPE, document.data))
    if problems:
        raise PolicyError([Mistake(document.source, *document.mark(each.key), each.message) for each in problems])
    return [*_recipients(document, "people", _person_recipient), *_recipients(document, "webhooks", _program_recipient)]


def _recipients(document: Document, name: str, build: Any) -> Iterator[Recipient]:  # noqa: ANN401 - one of the two below
    for at, given in enumerate(document.data.get(name, ())):
        try:
            yield build(given)
        except ConfigurationError as error:
            raise PolicyError([Mistake(document.source, *document.mark((name, at)), str(error))]) from None


def _person_recipient(given: Mapping[str, Any]) -> Recipient:
    return Recipient(
        destinations=tuple(AppriseService(_resolve_env(each)) for each in given["to"]),
        name=given["name"],
        roles=tuple(given.get("roles", ())),
        project=given.get("project", EVERY_PROJECT),
        arguments=tuple(given.get("arguments", ())),
    )


def _program_recipient(given: Mapping[str, Any]) -> Recipient:
    webhook = SignedWebhook(given["url"], _resolve_env(given["secret"]))
    return Recipient(destinations=(webhook,), project=given.get("project", EVERY_PROJECT))


def _resolve_env(given: str) -> str:
    """Resolve `env:NAME`, so that a secret need not be in the file."""
    if not given.startswith("env:"):
        return given
    value = os.environ.get(given.removeprefix("env:"))
    if not value:
        raise ConfigurationError(f"{given!r} names a variable that the environment does not have; set it")
    return value
