"""Redaction of texts: what is left of them, where they are cut, and that no text takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secret_patterns.secret_corpus import JWT, LINES, PW, TOKENS, draw, shows

from sayso.core.redaction import REDACTED, redact_text

WORDS = "a line of words, as people write them\n"
IN_TEXT = {
    **TOKENS,
    "password in a URL": f"postgres://app:{draw(60)}@db/main",
    "long password in a URL": f"postgres://{draw(60)}:{draw(200)}@db/main",
    "assignment": f"password={draw(40)}",
    "JSON": f'"client_secret": "{draw(400)}"',
    "flag": f"--token {draw(40)} ",
    "curl": f"curl -u ann:{draw(30)} https://x.example",
    "long value": f"API_KEY={draw(3000)}",
    "long JWT": f"{JWT[:20]}{draw(600)}.{draw(2000)}.{draw(43)}",
    "key": f"-----BEGIN PRIVATE KEY-----\n{LINES * 10}\n-----END PRIVATE KEY-----",
}
HIDDEN = {
    name: text.rpartition("=")[2] if name == "long value" else text[-40:-20] for name, text in IN_TEXT.items()
} | {
    "password in a URL": IN_TEXT["password in a URL"].split(":")[2].partition("@")[0],
    "long password in a URL": IN_TEXT["long password in a URL"].split(":")[2].partition("@")[0],
    "assignment": IN_TEXT["assignment"].partition("=")[2],
    "JSON": IN_TEXT["JSON"].split('"')[3],
    "flag": IN_TEXT["flag"].split()[1],
    "curl": IN_TEXT["curl"].split()[2].partition(":")[2],
    "long JWT": IN_TEXT["long JWT"],
    "key": LINES,
}


@pytest.mark.proves("H8")
@given(
    name=st.sampled_from(sorted(IN_TEXT)),
    before=st.integers(0, 2200),
    removed=st.sampled_from(["", "sk_live_" + draw(400) + " ", "password=" + draw(900) + "\n"]),
    after=st.sampled_from(["", " and so on", "\n" + WORDS * 80]),
)
def test_no_part_of_a_secret_is_shown_wherever_it_stands(name: str, before: int, removed: str, after: str) -> None:
    text = removed + (WORDS * 60)[:before] + "\n" + IN_TEXT[name] + after
    shown = redact_text(text)
    assert not shows(shown, HIDDEN[name]), shown


@pytest.mark.proves("H8")
@pytest.mark.parametrize("name", sorted(IN_TEXT))
def test_no_part_of_a_secret_is_shown_at_any_place_near_the_cut(name: str) -> None:
    for before in range(1850, 2010, 3):
        text = (WORDS * 60)[:before] + "\n" + IN_TEXT[name] + "\n" + WORDS * 90
        assert not shows(redact_text(text), HIDDEN[name])


@pytest.mark.proves("H8")
def test_what_was_removed_before_the_cut_lets_no_text_from_behind_it_in() -> None:
    text = f"password={'x1' * 500}\n" + "y" * 1100 + f" postgres://app:{'z9' * 700}@db/main"
    assert "z9z9" not in redact_text(text)


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"psql postgres://ann:{PW}@db/main -c x", f"psql postgres://{REDACTED}@db/main -c x"),
        (f"curl -H 'Authorization: Bearer {PW}' https://x", f"curl -H 'Authorization: Bearer {REDACTED}' https://x"),
        (f"TOKEN={PW}; rm -rf build", f"TOKEN={REDACTED}; rm -rf build"),
        (f"PASSWORD={PW}&&rm -rf build", f"PASSWORD={REDACTED}&&rm -rf build"),
        (f"PASSWORD={PW}|sh", f"PASSWORD={REDACTED}|sh"),
        (f"call(token={PW}, user=ann)", f"call(token={REDACTED}, user=ann)"),
        (f"call(token={PW},user=ann)", f"call(token={REDACTED},user=ann)"),
        (f"mysql -uroot -p{PW} shop", f"mysql -uroot -p{REDACTED} shop"),
        (f"https://x.example/?token={PW}&page=2#top", f"https://x.example/?token={REDACTED}&page=2#top"),
        (f'{{"password": "{PW}", "user": "ann"}}', f'{{"password": "{REDACTED}", "user": "ann"}}'),
    ],
)
def test_only_the_secret_is_removed_so_that_nothing_hides_behind_one(text: str, shown: str) -> None:
    assert redact_text(text) == shown


PIECES = [
    "a", "A1", "=", "-", "eyJ", "eyJ-", "ghp_", "sk-", "://", "://a:", "://a@", "AKIA", "-----BEGIN PRIVATE KEY-----",
    "password", "password=", 'password="', "password: a(", "token=a[", "--password ", "curl -u a:", " -p", "token is ",
    "Bearer ", "Authorization: ", "Cookie: a=b;", "machine a login b ", "echo a |", "name: PASSWORD\nvalue: ",
    "<password>",
    "$6$a$", "$y$", "8Q~", "==", "MII", "a:1:b:c:", "key=", "sig=", "ENV TOKEN ", "secrets set a=", "12345678:A", "SG.",
    "password=,a", '\\"', "password: |\n a", "x.y:", "access_token$production$", "İ", "\ud800",
]  # fmt: skip


@pytest.mark.proves("H8")
@pytest.mark.parametrize("piece", PIECES)
def test_a_text_made_to_be_slow_is_not(piece: str) -> None:
    """Exponential or cubic time would not end here."""
    for other in ("", "x", " ", '"', "=", "1", "\n"):
        assert redact_text((piece + other) * 3000)
