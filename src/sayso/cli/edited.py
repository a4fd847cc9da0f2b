"""Parser of edited arguments (`approve --args`), from a file or stdin.

Tests: tests/cli/test_approve_deny.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sayso.cli.open_store import Failure
from sayso.cli.screen import standard_input
from sayso.config.arguments import ARGUMENTS_SPEC, read_arguments
from sayso.config.read_file import read_bytes
from sayso.errors import CanonicalError, ConfigurationError

_FORMS: Mapping[str, Literal["json", "yaml"]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


def read_edited(name: str) -> Mapping[str, Any]:
    """Parse all arguments of a call: JSON by the file name or a leading brace, else YAML."""
    source = "the input" if name == "-" else name
    try:
        content = (
            standard_input("arguments").read(ARGUMENTS_SPEC.largest + 1)
            if name == "-"
            else read_bytes(Path(name), ARGUMENTS_SPEC)
        )
        return read_arguments(content, source, _FORMS.get(Path(name).suffix.lower()))
    except CanonicalError as error:
        raise Failure(f"{source}: {error}") from None
    except ConfigurationError as error:
        raise Failure(str(error)) from None
