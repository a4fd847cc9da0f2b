"""Arguments that a person has edited, from a file or from the input."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TextIO, cast

import click

from sayso.canonical import parse_args
from sayso.cli.store import Failure
from sayso.config.contents import Form, decode, read_bytes
from sayso.config.documents import read_yaml
from sayso.errors import CanonicalError, ConfigurationError

_FORM = Form(
    what="the arguments of a call",
    missing="name a file with all arguments of the call, or - for the input",
    empty="write all arguments of the call, or {} for none",
    start="write the arguments as a mapping, such as `amount: 5`",
    largest=10_000_000,
)


def read_edited(name: str) -> Mapping[str, Any]:
    """Read all arguments of a call: JSON if that is its name or if it begins with a brace, else YAML."""
    source = "the input" if name == "-" else name
    try:
        content = _standard_input().read(_FORM.largest + 1) if name == "-" else read_bytes(Path(name), _FORM)
        text = decode(content, source, _FORM)
        suffix = Path(name).suffix.lower()
        if suffix == ".json" or (suffix not in {".yaml", ".yml"} and text.lstrip().startswith(("{", "["))):
            return parse_args(text)
        return read_yaml(content, source, _FORM).data
    except CanonicalError as error:
        raise Failure(f"{source}: {error}") from None
    except ConfigurationError as error:
        raise Failure(str(error)) from None


def _standard_input() -> IO[bytes]:
    stream = cast("TextIO | None", sys.stdin)  # None if whoever started the process has closed it
    if stream is None:
        raise click.UsageError("there is no input to read arguments from")
    return stream.buffer
