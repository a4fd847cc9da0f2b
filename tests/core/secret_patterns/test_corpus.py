"""Redaction over two corpora: nearly all secrets are hidden, and hardly any harmless value is touched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.core.secret_patterns.harmless_corpus import HARMLESS
from tests.core.secret_patterns.secret_corpus import SECRETS, shows

from sayso.core.redaction import REDACTED, redact


def written(value: Any) -> str:
    return json.dumps(redact(value), ensure_ascii=False)


@pytest.mark.proves("H8")
def test_nearly_every_secret_of_the_corpus_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    missed = [name for name, args, hidden in SECRETS if shows(written(args), hidden)]
    with capsys.disabled():
        print(f"\nsecrets: {len(SECRETS) - len(missed)} of {len(SECRETS)} hidden; missed: {missed}")
    assert len(SECRETS) >= 150
    assert len(missed) <= len(SECRETS) * 0.02


@pytest.mark.proves("H8")
def test_hardly_any_value_of_the_harmless_corpus_is_touched(capsys: pytest.CaptureFixture[str]) -> None:
    touched = [value for value in HARMLESS if REDACTED in written(value)]
    with capsys.disabled():
        print(f"\nharmless values: {len(touched)} of {len(HARMLESS)} touched: {touched}")
    assert len(HARMLESS) >= 200
    assert len(touched) <= len(HARMLESS) * 0.01


@pytest.mark.proves("H8")
def test_the_corpus_would_notice_if_nothing_were_redacted() -> None:
    assert all(shows(json.dumps(args, ensure_ascii=False), hidden) for _, args, hidden in SECRETS)
