"""Parser for hand-written arguments of a call: strict JSON or YAML.

Tests: tests/cli/test_approve_deny.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sayso.config.read_file import FileSpec, decode
from sayso.config.yaml_toml import read_yaml
from sayso.core.canonical import parse_args

ARGUMENTS_SPEC = FileSpec(
    what="the arguments of a call",
    missing="name a file with all arguments of the call, or - for the input",
    empty="write all arguments of the call, or {} for none",
    start="write the arguments as a mapping, such as `amount: 5`",
    largest=10_000_000,
)


def read_arguments(content: bytes, source: str, form: Literal["json", "yaml"] | None = None) -> Mapping[str, Any]:
    """Parse all arguments of a call; without `form`, a text that begins with a bracket is JSON, any other YAML.

    Raises:
        CanonicalError: the text is not JSON, or ambiguous.
        ConfigurationError: the text is not YAML.
    """
    text = decode(content, source, ARGUMENTS_SPEC)
    if form == "json" or (form is None and text.lstrip().startswith(("{", "["))):
        return parse_args(text)
    return read_yaml(content, source, ARGUMENTS_SPEC).data
