"""Redaction of values: what a name, a neighbour or a program says about the value beside it."""

from __future__ import annotations

from typing import Any

import pytest

from sayso.core.redaction import REDACTED, redact


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": None, "token": "", "secret": False}, {"password": None, "token": "", "secret": False}),
        ({"pin": 13, "otp": 493817, "tokens": 1523}, {"pin": 13, "otp": REDACTED, "tokens": 1523}),
        ({"pwd": "/home/ann"}, {"pwd": "/home/ann"}),
        ({"pwd": "hunter2"}, {"pwd": REDACTED}),
        (["--user", "ann", "--password", "x y", "-v"], ["--user", "ann", "--password", REDACTED, "-v"]),
        (["--pin", 493817, 5], ["--pin", REDACTED, 5]),
        (["--password", "--verbose"], ["--password", "--verbose"]),
        (("X-Api-Key", "x"), ["X-Api-Key", REDACTED]),
        (["a", "X-Api-Key", "x", "b"], ["a", "X-Api-Key", REDACTED, "b"]),
        (["curl", "-u", "ann:x1", "https://x"], ["curl", "-u", REDACTED, "https://x"]),
        (["docker", "run", "-u", "10:10", "-p", "80:80"], ["docker", "run", "-u", "10:10", "-p", "80:80"]),
        (["docker", "login", "-p", "x"], ["docker", "login", "-p", REDACTED]),
        ({"name": "DB_PASSWORD", "value": "x"}, {"name": "DB_PASSWORD", "value": REDACTED}),
        ({"value": "x", "name": "DB_PASSWORD"}, {"value": REDACTED, "name": "DB_PASSWORD"}),
        (
            {"ParameterKey": "DbPassword", "ParameterValue": 1},
            {"ParameterKey": "DbPassword", "ParameterValue": REDACTED},
        ),
        ({"name": "DB_HOST", "value": "x"}, {"name": "DB_HOST", "value": "x"}),
        ({"name": "A_TOKEN", "valueFrom": "x"}, {"name": "A_TOKEN", "valueFrom": "x"}),
        ({"name": "token.py", "content": "x"}, {"name": "token.py", "content": "x"}),
        ({"name": "Reset a password", "text": "x"}, {"name": "Reset a password", "text": "x"}),
        ({"element": "Password field", "text": "x"}, {"element": "Password field", "text": REDACTED}),
        ({"command": "sshpass", "args": ["-p", "x", "ls"]}, {"command": "sshpass", "args": ["-p", REDACTED, "ls"]}),
        ({"command": "/usr/bin/mysql", "args": ["-px1"]}, {"command": "/usr/bin/mysql", "args": [REDACTED]}),
        ({"command": "psql", "args": ["-p", "5432"]}, {"command": "psql", "args": ["-p", "5432"]}),
    ],
)
def test_a_value_is_judged_by_what_stands_beside_it(value: Any, shown: Any) -> None:
    assert redact(value) == shown


@pytest.mark.proves("H8")
def test_a_mapping_that_is_cut_still_hides_the_value_beside_a_name() -> None:
    value = {"name": "DB_PASSWORD", "value": "hunter2", "rest": list(range(600)), "more": 1, "last": 2}
    shown = redact(value)
    assert shown["value"] == REDACTED
    assert shown["…"] == "2 more"


class Touchy:
    """An object of somebody else's, whose code must not be run."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("who called my code?")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.proves("H8", "H5")
def test_a_foreign_object_is_not_compared_with_anything() -> None:
    assert redact({"password": Touchy(), "name": Touchy(), "value": 1})["password"] == REDACTED
    assert "Touchy" in redact(["--password", Touchy()])[1]
