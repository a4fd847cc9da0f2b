"""The messages before a call: the last ones, the question among them, within the limit, and without secrets."""

from collections.abc import Iterable

import pytest

from sayso import ConversationMessage
from sayso.core.conversation import (
    LARGEST_CONVERSATION,
    ConversationLimit,
    Role,
    describe_call,
    describe_result,
    last_messages,
)
from sayso.core.redaction import REDACTED


def said(*texts: str, role: Role = "agent") -> list[ConversationMessage]:
    return [ConversationMessage(role=role, text=text) for text in texts]


def kept(given: Iterable[ConversationMessage], **limit: int) -> list[str]:
    found = last_messages(reversed(list(given)), ConversationLimit(**limit))
    return [f"{'… ' if each.gap else ''}{each.role}: {each.text}" for each in found]


def test_the_last_messages_are_kept_in_their_order_and_what_is_left_out_is_told() -> None:
    asked = ConversationMessage(role="user", text="pay it")
    assert kept([*said("one", "two"), asked, *said("three")], messages=2) == ["… user: pay it", "agent: three"]
    assert kept([asked, *said("three")], messages=2) == ["user: pay it", "agent: three"]


@pytest.mark.parametrize("role", ["user", "caller"])
def test_the_question_to_the_agent_is_kept_however_much_followed_it(role: Role) -> None:
    messages = [*said("hello"), *said("pay it", role=role), *said(*"123456789", role="tool")]
    assert kept(messages, messages=3) == [f"… {role}: pay it", "… tool: 8", "tool: 9"]
    assert kept(messages, messages=1) == [f"… {role}: pay it"]


def test_messages_without_a_word_are_no_messages() -> None:
    assert kept(said("one", "", " \n"), messages=1) == ["agent: one"]
    assert kept([], messages=4) == []


def test_the_limit_of_characters_is_for_all_messages_together_and_short_ones_leave_room_to_long_ones() -> None:
    found = last_messages(reversed(said("a" * 10, "b" * 500, "c" * 500)), ConversationLimit(characters=100))
    assert [len(each.text) for each in found] == [10, 45, 45]
    assert found[1].text == "b" * 44 + "…"
    few = last_messages(reversed(said("one", "two", "three")), ConversationLimit(characters=2))
    assert sum(len(each.text) for each in few) <= 2


def test_a_limit_of_none_keeps_nothing_and_reads_nothing() -> None:
    def untouched() -> Iterable[ConversationMessage]:
        raise AssertionError("these messages were read")
        yield

    assert last_messages(untouched(), ConversationLimit(messages=0)) == ()


def test_a_long_history_is_not_read_to_its_end() -> None:
    read = 0

    def endless() -> Iterable[ConversationMessage]:
        nonlocal read
        while True:
            read += 1
            yield ConversationMessage(role="tool", text="x")

    assert len(last_messages(endless(), ConversationLimit())) == 4
    assert read < 1000


SECRETS = [
    "the password is: password=hunter2hunter2",
    "Authorization: Bearer abcdefghijklmnop",
    "sk-aaaaaaaaaaaaaaaaaaaaaaaa",
    "postgres://bob:hunter2hunter2@db/x",
    "-----BEGIN PRIVATE KEY-----\nabcdefghijklmnop\n-----END PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("limit", [ConversationLimit(), ConversationLimit(characters=40)])
def test_a_secret_is_removed_before_a_text_is_cut(secret: str, limit: ConversationLimit) -> None:
    (found,) = last_messages(said(secret), limit)
    for part in ("hunter2", "abcdefgh", "aaaaaaaa"):
        assert part not in found.text
    long = "x" * (limit.characters - 5) + " " + secret
    (found,) = last_messages(said(long), limit)
    for part in ("hunt", "abcd", "aaaa"):
        assert part not in found.text


def test_what_is_bounded_and_redacted_stays_as_it_is_the_second_time() -> None:
    messages = said(*(f"token={'s' * 40} " + "ä" * 5000 for _ in range(60)))
    once = last_messages(reversed(messages), LARGEST_CONVERSATION)
    assert last_messages(reversed(once), LARGEST_CONVERSATION) == once
    assert sum(len(each.text) for each in once) <= LARGEST_CONVERSATION.characters
    assert max(len(each.text) for each in once) <= 2000


def test_half_a_character_becomes_its_code_so_that_every_store_takes_it() -> None:
    (found,) = last_messages(said("a\udc80b"), ConversationLimit())
    assert found.text == "a\\udc80b"


@pytest.mark.parametrize("wrong", [{"role": "system", "text": "x"}, {"role": "user", "text": None}])
def test_another_role_and_what_is_no_text_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError), match=r"ConversationMessage: `(role|text)` must be"):
        ConversationMessage(**wrong)  # pyright: ignore[reportArgumentType] - what is tested


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="holds ConversationMessage, not dict"):
        last_messages([{"role": "user"}], ConversationLimit())


def test_a_call_is_told_with_its_arguments_but_not_with_its_secrets() -> None:
    assert describe_call("shell", {"command": "ls", "n": 2}) == 'calls shell(command="ls", n=2)'
    assert describe_call("login", {"password": "hunter2"}) == f'calls login(password="{REDACTED}")'
    assert len(describe_call("write", {"text": "x" * 9999})) < 250


def test_a_result_is_told_by_its_first_characters_without_secrets_and_without_foreign_code() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("foreign code was called")

    assert describe_result("read", "one\ntwo") == "read: one\ntwo"
    assert (
        describe_result("read", {"api_key": "k", "a": [1, None]})
        == f'read: {{"api_key": "{REDACTED}", "a": [1, null]}}'
    )
    assert "Loud" in describe_result("read", Loud())
    assert len(describe_result("read", "x" * 9999)) < 250
