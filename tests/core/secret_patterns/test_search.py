# ruff: noqa: SLF001 - the parts of the search, to do without what it spares itself
# pyright: reportPrivateUsage=false
"""The search for secrets spares itself what cannot find any, and finds the same."""

import json
import re
from itertools import chain
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.secret_patterns.harmless_corpus import HARMLESS
from tests.core.secret_patterns.secret_corpus import SECRETS

from sayso.core.secret_patterns import search, token_formats
from sayso.core.secret_patterns.named_values import find_named
from sayso.core.secret_patterns.program_options import find_in_commands

ALL = re.compile(token_formats._BEGINNING + token_formats._by_prefix().pattern)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return texts([*cast("dict[Any, Any]", value).items()])
    if isinstance(value, (list, tuple)):
        return [text for each in cast("list[Any]", value) for text in texts(each)]
    return [value] if isinstance(value, str) else []


EVERY = [
    *(text for value in [*HARMLESS, *(args for _, args, _ in SECRETS)] for text in [*texts(value), json.dumps(value)])
]
PIECES = sorted({piece for text in EVERY for piece in [text, *re.split(r"(?<=[\s=:,/-])", text)] if len(piece) < 200})


def thorough(text: str) -> list[tuple[int, int]]:
    """Search for everything everywhere."""
    lower = text.lower()
    tokens: list[tuple[int, int]] = []
    if token_formats._RUN.search(text):
        for hint, pattern in token_formats._OTHERS:
            tokens += [found.span() for found in pattern.finditer(text) if hint in lower]
        for run in token_formats._RUN.finditer(text):
            tokens += [found.span() for found in ALL.finditer(text, *run.span())]
    urls = search._in_urls(text)
    return search._merged(chain(tokens, find_named(text, lower), find_in_commands(text, lower), urls))


def test_in_both_corpora_the_search_finds_what_a_thorough_one_finds() -> None:
    assert [text for text in EVERY if search.find_secrets(text) != thorough(text)] == []


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), min_size=1, max_size=5).map("".join))
def test_in_any_mixture_of_their_pieces_it_does_so_as_well(text: str) -> None:
    assert search.find_secrets(text) == thorough(text)
