"""Policy documents: what they say, where they say it, and every file that is refused with a place and a remedy."""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso.config.yaml_toml import Document, Key, Mark, read_policy_file, read_pyproject, read_yaml
from sayso.errors import ConfigurationError

POLICY = """\
# who may do what
version: 1
default: required
tools:
  calculate_stats: {approval: required}
  "github_*":
    approval: required
    when: {args.amount: {gt: 100}}
shell:
  default: blocked
  rules:
    - {pattern: git status, approval: none}
    - pattern: git commit
      approval: required
"""

PYPROJECT = """\
[project]
name = "x"
description = '''
[tool.sayso]
version = 3
'''
matrix = [
  ["tool"],
  [
    "sayso",
  ],
]

[tool.sayso]
version = 1 # [tool.sayso]
default = "required"
remember.max = "30d"
limits = { args = { amount = 100 } }

  [tool.sayso.tools."github_*"]
  approval = "required"
  "an = \\" odd key" = '#'

[tool.other]
version = 2

[[tool.sayso.shell.rules]]
pattern = "git status"

[[tool.sayso.shell.rules]]
pattern = "git commit"
  [tool.sayso.shell.rules.when]
  branch = "main"
"""


def yaml(text: str) -> Any:
    return read_yaml(text.encode(), "sayso.yaml").data


def toml(text: str) -> Document:
    document = read_pyproject(text.encode(), "pyproject.toml")
    assert document is not None
    return document


def refusal(read: Callable[[], object]) -> str:
    """The one line with which something is refused."""
    with pytest.raises(ConfigurationError) as caught:
        read()
    message = str(caught.value)
    assert message.isprintable()
    assert "; " in message, "it says what to do"
    return message


def refused(text: str | bytes) -> str:
    content = text if isinstance(text, bytes) else text.encode()
    return refusal(lambda: read_yaml(content, "p.yaml"))


def refused_toml(text: str | bytes) -> str:
    content = text if isinstance(text, bytes) else text.encode()
    return refusal(lambda: read_pyproject(content, "pyproject.toml"))


def keys_of(value: Any, path: Key = ()) -> Iterator[Key]:
    """The key of everything in a document."""
    yield path
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from keys_of(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from keys_of(item, (*path, at))


# What a document says, and where.


def test_a_document_is_plain_data_under_the_name_that_people_gave_it() -> None:
    document = read_yaml(POLICY.encode(), "./sayso.yaml")
    assert document.source == "./sayso.yaml"
    assert document.data == {
        "version": 1,
        "default": "required",
        "tools": {
            "calculate_stats": {"approval": "required"},
            "github_*": {"approval": "required", "when": {"args.amount": {"gt": 100}}},
        },
        "shell": {
            "default": "blocked",
            "rules": [
                {"pattern": "git status", "approval": "none"},
                {"pattern": "git commit", "approval": "required"},
            ],
        },
    }


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ((), (2, 1)),
        (("version",), (2, 1)),
        (("tools", "calculate_stats", "approval"), (5, 21)),
        (("tools", "github_*"), (6, 3)),
        (("tools", "github_*", "when", "args.amount", "gt"), (8, 26)),
        (("shell", "rules"), (11, 3)),
        (("shell", "rules", 0), (12, 7)),
        (("shell", "rules", 0, "approval"), (12, 29)),
        (("shell", "rules", 1), (13, 7)),
        (("shell", "rules", 1, "approval"), (14, 7)),
    ],
)
def test_every_key_and_every_list_item_has_its_line_and_column(key: Key, place: tuple[int, int]) -> None:
    document = read_yaml(POLICY.encode(), "p.yaml")
    assert document.marks[key] == document.mark(key) == Mark(*place)


def test_everything_in_a_yaml_document_has_a_mark_and_nothing_else_has_one() -> None:
    document = read_yaml(POLICY.encode(), "p.yaml")
    assert set(document.marks) == set(keys_of(document.data))


def test_what_has_no_mark_has_that_of_the_nearest_thing_round_it() -> None:
    document = read_yaml(POLICY.encode(), "p.yaml")
    assert document.mark(("shell", "rules", 1, "reason", "text")) == document.marks["shell", "rules", 1]
    assert document.mark(("shell", "rules", 7)) == document.marks["shell", "rules"]
    assert document.mark(("nowhere",)) == document.marks[()]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_are_counted_whatever_they_end_with(ending: str) -> None:
    document = read_yaml(ending.join(["a: 1", "", "b: é", "c: 'é'"]).encode(), "p.yaml")
    assert [document.marks[key,] for key in "abc"] == [(1, 1), (3, 1), (4, 1)]


def test_a_line_end_that_editors_may_not_show_as_one_is_refused() -> None:
    told = refusal(lambda: read_yaml(b"default: required # ask\rtools: {'*': none}\n", "p.yaml"))
    assert told.startswith("p.yaml:1:24: ")


def test_a_mark_of_byte_order_before_utf_8_is_no_part_of_the_text() -> None:
    content = b"\xef\xbb\xbf" + b"a: 1"
    assert read_yaml(content, "p.yaml").marks["a",] == (1, 1)
    table = read_pyproject(b"\xef\xbb\xbf[tool.sayso]\na = 1", "pyproject.toml")
    assert table is not None
    assert table.data == {"a": 1}


# Values mean what YAML 1.2 says.


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, word) for word in ("no", "yes", "on", "off", "y", "N", "None", "nULL", "tRUE", "=", "<<", "--", ".")),
        *(
            (word, word)
            for word in ("2024-05-27", "2024-05-27T07:32:00Z", "12:30:45", "1_000", "0b1", "0o8", "0xg", "+0x1")
        ),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        ("17", 17),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-5", -5),
        ("+5", 5),
        ("9" * 1000, int("9" * 1000)),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("'17'", "17"),
        ('"true"', "true"),
        ("'~'", "~"),
        ("''", ""),
        ("a  b", "a  b"),
        ("a#b # c", "a#b"),
        ("'it''s'", "it's"),
        (r'"\x41\u00e9\U0001F600\t\\"', "Aé😀\t\\"),
        (r"'C:\Users'", r"C:\Users"),
        ("|\n  a\n   b\n", "a\n b\n"),
        (">-\n  a\n  b\n", "a b"),
        ("[1, [two], {three: 3}]", [1, ["two"], {"three": 3}]),
        ("[a: b]", [{"a": "b"}]),
        ("{a, b: }", {"a": None, "b": None}),
        ("{}", {}),
        ("\n- a\n-\n- b", ["a", None, "b"]),
    ],
)
def test_a_value_means_what_yaml_1_2_says(written: str, value: object) -> None:
    read = yaml(f"a: {written}")["a"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "key",
    ["github_*", "no", "on", "2024-05-27", "args.amount", "a b", "'1'", '"true"', "'null'", "'*'", "'<<'", "'a: b'"],
)
def test_a_key_comes_back_exactly(key: str) -> None:
    assert yaml(f"{key}: x") == {key.strip("'\""): "x"}
    assert yaml(f"? {key}\n: x") == {key.strip("'\""): "x"}


# What JSON needs no escape for and YAML may hold as it is.
LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff")
TEXTS = st.text(LETTERS | st.sampled_from("\n\r\t\"'\\:#-?{}[],&*!|>%@` "), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None, max_examples=200)
@given(data=st.dictionaries(TEXTS, VALUES, max_size=4), indent=st.sampled_from([None, 1, 4]))
def test_every_json_object_comes_back_exactly(data: dict[str, Any], indent: int | None) -> None:
    document = read_yaml(json.dumps(data, ensure_ascii=False, indent=indent).encode(), "p.json")
    assert repr(document.data) == repr(data)
    assert set(document.marks) == set(keys_of(data))


# Files that are not YAML, or not the YAML of a policy.


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n  # here\n", "---\n", "--- # nothing\n...\n", b"\xef\xbb\xbf"]
)
def test_an_empty_file_is_refused_and_told_how_to_get_a_full_one(text: str | bytes) -> None:
    assert refused(text) == "p.yaml: this file is empty; write a policy, or run `sayso init` to have one written"


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", ["- a\n- b", "[a]", "text", "5", "null", "~", "''", "|\n  a", "true", "2024-05-27"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert refused(text).startswith("p.yaml:1:1: this file does not hold a mapping; start a policy with")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "p.yaml:3:1: the key 'a' is on lines 1 and 3; keep one of them"),
        ("a: 1\n'a': 3", "p.yaml:2:1: the key 'a' is on lines 1 and 2; keep one of them"),
        ("x:\n  - {a: 1, b: 2, a: 1}", "p.yaml:2:18: the key 'a' is on lines 2 and 2; keep one of them"),
        ('"\\u00e9": 1\né: 1', "p.yaml:2:1: the key 'é' is on lines 1 and 2; keep one of them"),
    ],
)
def test_a_duplicate_key_is_refused_and_both_lines_are_named(text: str, message: str) -> None:
    assert refused(text) == message


def test_the_same_key_in_two_mappings_is_no_duplicate() -> None:
    text = "a: {x: 1}\nb: [{x: 1}, {x: 1}]\nx: 1"
    assert yaml(text) == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "x": 1}


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "p.yaml:1:4: '&x' is an anchor; write out what it stands for wherever it is used"),
        ("&x a: 1", "p.yaml:1:1: '&x' is an anchor; "),
        ("&x {a: 1}", "p.yaml:1:1: '&x' is an anchor; "),
        ("a: &x [1]", "p.yaml:1:4: '&x' is an anchor; "),
        ("a:\n  - *x", "p.yaml:2:5: '*x' is an alias; write out what it stands for, or put a glob in quotes"),
        ("*_job: none", "p.yaml:1:1: '*_job:' is an alias; "),
        ("tools: {*: none}", "p.yaml:1:9: '*:' is an alias; "),
        ("a: *", "p.yaml:1:4: a text cannot start with `*`; put a glob in quotes"),
        ("a:\n  <<: {b: 1}", "p.yaml:2:3: `<<` merges another mapping into this one; write out what that says"),
        ("<<: *x", "p.yaml:1:1: `<<` merges another mapping into this one; "),
    ],
)
def test_anchors_aliases_and_merge_keys_are_refused(text: str, message: str) -> None:
    assert refused(text).startswith(message)


@pytest.mark.proves("H5")
def test_a_bomb_of_anchors_is_refused_at_its_first_anchor() -> None:
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 40))
    assert refused(f"l0: &l0 lol\n{levels}").startswith("p.yaml:1:5: '&l0' is an anchor; ")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("a: !!python/object/apply:os.system [id]", "tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !!binary eA==", "tag:yaml.org,2002:binary"),
        ("a: !!str 5", "tag:yaml.org,2002:str"),
        ("a: !foo bar", "!foo"),
        ("a: !<x:y> {b: c}", "x:y"),
        ("a: ! 5", "!"),
    ],
)
def test_explicit_tags_are_refused(text: str, tag: str) -> None:
    assert refused(text).startswith(f"p.yaml:1:4: the tag {tag!r} is not read; ")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "line"), [("a: 1\n---\nb: 2", 2), ("---\na: 1\n---", 3), ("---\n---\na: 1", 2), ("a: 1\n...\nb: 2", 3)]
)
def test_several_documents_in_one_file_are_refused(text: str, line: int) -> None:
    assert refused(text) == f"p.yaml:{line}:1: a second document starts here; keep one in a file"


@pytest.mark.parametrize("text", ["---\na: 1", "a: 1\n...\n", "--- {a: 1}", "%YAML 1.2\n---\na: 1\n...\n# the end\n"])
def test_one_document_may_say_where_it_starts_and_ends(text: str) -> None:
    assert yaml(text) == {"a": 1}


@pytest.mark.proves("H5")
@pytest.mark.parametrize("directive", ["%YAML 1.1", "%TAG ! tag:x,2024:", "%YAML 1.3", f"%YAML 1.{'1' * 5000}"])
def test_directives_that_change_what_a_file_means_are_refused(directive: str) -> None:
    assert refused(f"{directive}\n---\na: no").startswith("p.yaml:")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a: 1\nb: caf\xe9 x", "2:7"),
        ("a: é\nb: é".encode() + b"\xff", "2:5"),
        (b"a: \xed\xa0\x80", "1:4"),
        ("a: 1".encode("utf-16"), "1:1"),
        ("a: 1".encode("utf-32"), "1:1"),
    ],
)
def test_what_is_not_utf_8_is_refused(content: bytes, place: str) -> None:
    assert refused(content) == f"p.yaml:{place}: this is not UTF-8; save it as UTF-8"
    assert refused_toml(content) == f"pyproject.toml:{place}: this is not UTF-8; save it as UTF-8"


@pytest.mark.proves("H5")
@pytest.mark.parametrize("character", "\x00\x01\x07\x08\x0b\x0c\x1b\x7f\x80\x85\x9b\u2028\u2029\ufeff\ufffe\uffff")
def test_control_characters_and_hidden_line_ends_are_refused(character: str) -> None:
    for text in (f"a: é\nb: x{character}y", f"a: é\nb: '{character}'", f"a: é\n#  {character}"):
        assert refused(text) == f"p.yaml:2:{text.index(character) - 4}: {character!r} is invisible; delete it"


def test_utf_16_without_a_mark_of_byte_order_is_refused_for_its_zeros() -> None:
    assert refused("a: 1".encode("utf-16-le")) == "p.yaml:1:2: '\\x00' is invisible; delete it"


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", [r'a: "\ud800"', r'"\udfff": 1', r'a: "\ud83d\ude00"', r'a: ["x", "\ud800"]'])
def test_half_a_character_is_refused(text: str) -> None:
    assert "this text has half a character as an escape; write the character itself" in refused(text)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", [r'a: "\U00110000"', r'a: "\UFFFFFFFF"'])
def test_an_escape_of_no_character_is_refused(text: str) -> None:
    assert refused(text).startswith("p.yaml:1:1: this, or what follows, is not YAML, ")


@pytest.mark.proves("H5")
def test_a_file_of_over_5_mb_is_refused() -> None:
    problem = "this is larger than 5 MB; a policy has to be smaller"
    assert refused(b"#" * 5_000_001) == f"p.yaml: {problem}"
    assert refused_toml(b"#" * 5_000_001) == f"pyproject.toml: {problem}"
    assert "empty" in refused(b"\n" * 5_000)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("key", ["1", "-1", "0o17", "1.5", "true", "False", "null", "~", ".inf", "9" * 5000])
def test_a_key_that_is_no_text_is_refused_with_the_advice_to_quote_it(key: str) -> None:
    for text in (f"b:\n  {{{key}: x}}", f"b:\n  ? {key}\n  : x"):
        message = refused(text)
        assert message.startswith(f"p.yaml:2:{text.index(key) - 2}: the key '{key[:60]}")
        assert message.endswith(" has no quotes and is not read as a text; put it in quotes")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(("text", "place"), [(": x", "1:1"), ("a: {: x}", "1:6"), ("? \n: x", "1:2")])
def test_a_missing_key_is_refused(text: str, place: str) -> None:
    assert refused(text).startswith(f"p.yaml:{place}: the key '' ")


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", ["? [a]\n: b", "{a: b}: c", "x: {[a]: b}", "? a: b\n: c"])
def test_a_list_or_mapping_as_a_key_is_refused(text: str) -> None:
    assert refused(text).endswith("a list or mapping cannot be a key; use a text")


@pytest.mark.proves("H5")
@pytest.mark.parametrize("number", [".inf", "-.inf", "+.INF", ".Inf", ".nan", ".NaN", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    problem = "is not a finite number; write one, or put a text in quotes"
    assert refused(f"a:\n  b: [1, {number}]") == f"p.yaml:2:10: 'a.b.1' {problem}"


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "number", ["9" * 1001, "-" + "9" * 5000, "0x" + "f" * 900, "0o" + "7" * 5000, "9" * 1000 + ".5"]
)
def test_a_number_that_no_machine_has_is_refused(number: str) -> None:
    assert refused(f"a: {number}").startswith("p.yaml:1:1: 'a' is a number of 1000 digits or more; ")


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1", "2:1: a tab stands here, where YAML wants spaces; use spaces"),
        ("a: 1\n \tb: 2", "2:2: a tab stands here, where YAML wants spaces; use spaces"),
        ("a:\tb", "1:3: a tab stands here, where YAML wants spaces; use spaces"),
        ('a: "x\nb: 1', "1:4: the quote that opens here is never closed; close it"),
        ("a: 'it''s\n---\nb: 1", "1:4: the quote that opens here is never closed; close it"),
        ("a: [1,\n2", "2:2: here the brackets that open on line 1 need a `,` or their end; add it"),
        ("a: {b: 1\nc: 2", "2:2: here the brackets that open on line 1 need a `,` or their end; add it"),
        ("a: [1, 2}", "1:9: here the brackets that open on line 1 need a `,` or their end; add it"),
        ("a: [", "1:5: here a value is missing, or brackets are not closed; write it, or close them"),
        ("a: ]", "1:4: here a value is missing, or brackets are not closed; write it, or close them"),
        ("a: b: c", "1:5: a `:` cannot stand here; indent like the lines above, or put the text in quotes"),
        ("a: 1\n  b: 2", "2:4: a `:` cannot stand here; indent like the lines above, or put the text in quotes"),
        ("a: 1\nb\nc: 2", "2:1: this line has no `:` behind its key; write `key: value`"),
        ("a: - b", "1:4: a list item cannot start here; put each `-` on its own line, indented alike"),
        ("a: 1\n- b", "2:1: this does not fit the lines above; indent it alike, or put the text in quotes"),
        ('a: "b" c', "1:8: this does not fit the lines above; indent it alike, or put the text in quotes"),
        ("a: @b", "1:4: a text cannot start with this character; put the text in quotes"),
        ("a: %b", "1:4: a text cannot start with this character; put the text in quotes"),
        (r'a: "C:\home"', "1:8: a `\\` starts an unknown escape here; write `\\\\`, or use single quotes"),
        (r'a: "\xgg"', "1:7: a `\\` starts an unknown escape here; write `\\\\`, or use single quotes"),
        (
            "a: |0\n b",
            "1:5: this is not YAML ('expected indentation indicator in the range 1-9, but found 0'); correct it",
        ),
        (
            "a: |\n    \n     \n  x",
            "4:3: this is not YAML ('more indented follow up line than first in a block scalar'); correct it",
        ),
        (
            "a: |\n\n  \n    \n  x: 1",
            "5:3: this does not fit the lines above; indent it alike, or put the text in quotes",
        ),
    ],
)
def test_a_mistake_is_told_in_one_sentence_with_its_place_and_a_remedy(text: str, message: str) -> None:
    assert refused(text) == f"p.yaml:{message}"


def test_a_message_stays_short_and_printable_however_long_and_odd_the_word_is() -> None:
    word = "\\e[31m" + "é" * 500
    message = refused(f'"{word}": 1\n"{word}": 2')
    assert "'\\x1b[31mééé" in message
    assert len(message) < 200


# Depth, size and time have limits.


def nested_block(levels: int) -> str:
    return "".join(" " * level + "a:\n" for level in range(levels - 1)) + " " * levels + "b: 1"


@pytest.mark.parametrize(
    "deepest",
    [nested_block(50), "a: " + "[" * 49 + "b" + "]" * 49, "{a: " * 50 + "1" + "}" * 50, "a:\n" + "- " * 49 + "b"],
    ids=["block", "list", "mapping", "items"],
)
def test_fifty_levels_are_read(deepest: str) -> None:
    document = read_yaml(deepest.encode(), "p.yaml")
    assert max(map(len, document.marks)) == 50


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "text",
    [
        nested_block(51),
        nested_block(2000),
        "a: " + "[" * 50 + "]" * 50,
        "a: " + "[" * 100_000,
        "a: " + "[" * 100_000 + "]" * 100_000,
        "{a: " * 100_000,
        "a: " + "[a: " * 100_000,
        "a:\n" + "- " * 100_000 + "b",
        "a: {b: " + "[{c: " * 100_000,
    ],
    ids=["block", "deep block", "list", "open", "closed", "mappings", "pairs", "items", "mixed"],
)
def test_what_is_nested_deeper_than_fifty_levels_is_refused(text: str) -> None:
    assert refused(text).endswith(": this is nested deeper than 50 levels; write it flatter")


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, "? " * 100_000, "- " * 100_000, "[{" * 100_000])
def test_nesting_without_end_is_refused_for_whatever_is_wrong_first(text: str) -> None:
    assert refused(text).startswith("p.yaml:1:")


def test_ten_thousand_rules_are_read() -> None:
    rules = "".join(f"  - {{pattern: git status {number}, approval: none}}\n" for number in range(10_000))
    document = read_yaml(f"rules:\n{rules}".encode(), "p.yaml")
    assert len(document.data["rules"]) == 10_000
    assert document.data["rules"][9_999] == {"pattern": "git status 9999", "approval": "none"}
    assert document.marks["rules", 9_999, "approval"] == (10_001, 32)


def calls(content: str) -> int:
    """The number of functions that are called until a file is read or refused."""
    count = 0
    before = sys.getprofile()

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        with suppress(ConfigurationError):
            read_yaml(content.encode(), "p.yaml")
    finally:
        sys.setprofile(before)
    return count


HOSTILE: dict[str, Callable[[int], str]] = {
    "rules": lambda size: "a:\n" + "".join(f"  t{number}: {{approval: none}}\n" for number in range(size // 10)),
    "a long list": lambda size: "a: [" + "b, " * size + "]",
    "nested lists": lambda size: "a: [" + ("[" * 40 + "]" * 40 + ", ") * (size // 80) + "]",
    "pairs": lambda size: "a: [" + "b: c, " * size + "]",
    "explicit keys": lambda size: "".join(f"? k{number}\n: v\n" for number in range(size)),
    "explicit keys in brackets": lambda size: "a: {" + "".join(f"? k{number} : v, " for number in range(size)) + "}",
    "question marks": lambda size: "? " * size,
    "open brackets": lambda size: "a: " + "[" * size,
    "quotes in quotes": lambda size: "a: '" + "''" * size + "'",
    "escaped quotes": lambda size: 'a: "' + '\\"' * size + '"',
    "an open quote": lambda size: 'a: "' + "x " * size,
    "one long word": lambda size: "a: " + "x" * size,
    "one long line": lambda size: "a: " + "x " * size,
    "a long key": lambda size: "x" * size + ": 1",
    "a text of many lines": lambda size: "a: " + "x\n  " * size,
    "a block of many lines": lambda size: "a: |\n" + "  x\n" * size,
    "blank lines": lambda size: "a: |\n" + "\n" * size + "  x",
    "comments": lambda size: "a: 1\n" + "# x\n" * size,
    "steps up and down": lambda size: "".join(f"k{number}:\n a:\n  a:\n   a: 1\n" for number in range(size // 4)),
    "documents": lambda size: "---\n" * size,
    "directives": lambda size: "%X\n" * size + "---\na: 1",
}


@pytest.mark.proves("H5")
@pytest.mark.parametrize("kind", HOSTILE)
def test_twice_as_much_takes_no_more_than_twice_the_steps(kind: str) -> None:
    calls("a: 1")
    once, twice = calls(HOSTILE[kind](1000)), calls(HOSTILE[kind](2000))
    assert twice < 2.1 * once + 100


@pytest.mark.proves("H5")
@pytest.mark.parametrize("long", ["a: | #{}\n  b", "a: |{:>1000}\n  b", "a: >-  #{}\n  b", "a: 'b'|  #{}"])
def test_a_comment_that_the_parser_would_copy_without_end_is_refused_before_it(long: str) -> None:
    assert refused(long.format("x" * 1_000_000)).startswith("p.yaml:1:")


@pytest.mark.proves("H5")
@pytest.mark.parametrize("start", ["a: !", "a: !!", "a: !<", "a: [b,!", "{a: {?!", "!"])
def test_a_tag_that_the_parser_would_copy_without_end_is_refused_before_it(start: str) -> None:
    message = refused(start + "x" * 1_000_000 + "> b")
    assert message.endswith(" looks like a tag, and far too long a one; put a text in quotes")


@pytest.mark.parametrize("text", ["a: | # " + "x" * 900 + "\n  b", "a: b" + "!x" * 2000, "a: '|'  #" + "x" * 2000])
def test_long_words_and_comments_elsewhere_are_read(text: str) -> None:
    assert "a" in yaml(text)


# The table in a TOML file.


def test_the_table_of_a_toml_file_is_plain_data() -> None:
    document = toml(PYPROJECT)
    assert document.source == "pyproject.toml"
    assert document.data == {
        "version": 1,
        "default": "required",
        "remember": {"max": "30d"},
        "limits": {"args": {"amount": 100}},
        "tools": {"github_*": {"approval": "required", 'an = " odd key': "#"}},
        "shell": {"rules": [{"pattern": "git status"}, {"pattern": "git commit", "when": {"branch": "main"}}]},
    }


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ((), (14, 1)),
        (("version",), (15, 1)),
        (("default",), (16, 1)),
        (("remember", "max"), (17, 1)),
        (("limits",), (18, 1)),
        (("limits", "args", "amount"), (18, 1)),
        (("tools",), (20, 3)),
        (("tools", "github_*"), (20, 3)),
        (("tools", "github_*", "approval"), (21, 3)),
        (("tools", "github_*", 'an = " odd key'), (22, 3)),
        (("shell", "rules", 0), (27, 1)),
        (("shell", "rules", 0, "pattern"), (28, 1)),
        (("shell", "rules", 1, "pattern"), (31, 1)),
        (("shell", "rules", 1, "when", "branch"), (33, 3)),
        (("shell", "rules", 1, "approval"), (30, 1)),
        (("nowhere",), (14, 1)),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_key_of_the_table_has_its_line_and_what_is_inline_has_that_of_its_parent(
    key: Key, place: tuple[int, int], ending: str
) -> None:
    assert toml(PYPROJECT.replace("\n", ending)).mark(key) == Mark(*place)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\ntool.sayso.a = 1", 2),
        ("x = 1\n[tool]\nsayso.a = 1", 3),
        ("x = 1\n[tool]\nsayso = {a = 1}", 3),
        ("x = 1\ntool = {sayso = {a = 1}}", 2),
        ("x = 1\n[ 'tool' . \"sayso\" ]\na = 1", 3),
        ('x = """\n\\""" [tool.sayso]\n"""""\n[tool.sayso]\na = 1', 5),
        ("x = '''\n''\n[tool.sayso]\n''''\n[tool.sayso]\na = 1", 6),
    ],
)
def test_the_table_is_found_however_it_is_written(text: str, line: int) -> None:
    document = toml(text)
    assert document.data == {"a": 1}
    assert document.mark(("a",)).line == line


@pytest.mark.parametrize("text", ["", "a = 1", "[tool]", "[tool.other]", "tool = 5", "[[tool]]\nsayso = 1", "[sayso]"])
def test_a_toml_file_without_the_table_says_nothing(text: str) -> None:
    assert read_pyproject(text.encode(), "pyproject.toml") is None


def test_an_empty_table_is_a_document_that_says_nothing_as_empty_braces_are() -> None:
    assert toml("[tool.sayso]").data == yaml("{}") == {}


@pytest.mark.proves("H5")
@pytest.mark.parametrize("text", ["[tool]\nsayso = 5", "[tool]\nsayso = []", "\n[[tool.sayso]]\na = 1"])
def test_a_table_that_is_none_is_refused(text: str) -> None:
    assert refused_toml(text) == "pyproject.toml:2:1: `tool.sayso` is not a table; write it as `[tool.sayso]`"


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1979-05-27", "is a date or time; put it in quotes"),
        ("07:32:00", "is a date or time; put it in quotes"),
        ("1979-05-27T07:32:00Z", "is a date or time; put it in quotes"),
        ("inf", "is not a finite number; write one, or put a text in quotes"),
        ("-nan", "is not a finite number; write one, or put a text in quotes"),
        ("1e999", "is not a finite number; write one, or put a text in quotes"),
        ("0x" + "f" * 900, "is a number of 1000 digits or more; write a smaller one, or put a text in quotes"),
    ],
)
def test_a_value_of_the_table_that_no_policy_can_use_is_refused(value: str, problem: str) -> None:
    assert refused_toml(f"[tool.sayso]\na = {value}") == f"pyproject.toml:2:1: 'a' {problem}"
    assert refused_toml(f"[tool.sayso]\na = [{{b = {value}}}]") == f"pyproject.toml:2:1: 'a.0.b' {problem}"


def test_what_other_tables_hold_is_not_our_concern() -> None:
    assert toml("x = 1979-05-27\ny = inf\nz = '\u2028'\n[tool.sayso]\na = 1").data == {"a": 1}


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[tool.sayso]\na = ", "2:5"),
        ("[tool.sayso]\na 1", "2:3"),
        ("[tool.sayso\n", "1:12"),
        ("[tool.sayso]\na = 1\na = 2", "3:6"),
        ("a = '''\n", "2:1"),
        ("a = 'x\x00y'", "1:7"),
    ],
)
def test_a_file_that_is_not_toml_is_refused_with_the_place(text: str, place: str) -> None:
    assert refused_toml(text).startswith(f"pyproject.toml:{place}: this is not TOML (")


@pytest.mark.proves("H5")
def test_a_toml_number_beyond_what_python_converts_is_refused() -> None:
    assert refused_toml("[tool.sayso]\na = " + "9" * 5000).startswith("pyproject.toml: this is not TOML (")


def test_fifty_levels_of_toml_are_read() -> None:
    assert max(map(len, keys_of(toml("[tool.sayso]\na = " + "[" * 49 + "]" * 49).data))) == 49
    assert max(map(len, keys_of(toml("tool.sayso." + "a." * 49 + "b = 1").data))) == 50


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    "text",
    [
        "[tool.sayso]\na = " + "[" * 50 + "]" * 50,
        "[tool.sayso]\na = " + "[" * 100_000,
        "[tool.sayso]\na = " + "{a = " * 100_000,
        "[tool.sayso]\n" + "a." * 50 + "b = 1",
        "[tool.sayso]\n" + "a." * 100_000 + "b = 1",
        "[tool.sayso." + "a." * 100_000 + "b]",
        " [[" + "'a' . " * 100_000 + "b]]",
    ],
    ids=["list", "open lists", "open tables", "key", "endless key", "endless table", "endless list of tables"],
)
def test_toml_that_is_nested_deeper_than_fifty_levels_is_refused(text: str) -> None:
    assert refused_toml(text).endswith(": this is nested deeper than 50 levels; write it flatter")


# Files.


def test_a_file_is_read_by_its_name(tmp_path: Path) -> None:
    for name in ("sayso.yaml", "policy", "x.yml", "x.json"):
        (tmp_path / name).write_text('{"a": 1}')
    for name in ("pyproject.toml", "policy.TOML"):
        (tmp_path / name).write_text("[tool.sayso]\na = 1")
    for path in sorted(tmp_path.iterdir()):
        document = read_policy_file(path)
        assert document is not None
        assert (document.source, document.data) == (str(path), {"a": 1})


def test_a_toml_file_without_the_table_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'x'")
    assert read_policy_file(path) is None


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("a: 1")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    document = read_policy_file(tmp_path / "link.yaml")
    assert document is not None
    assert document.data == {"a": 1}


def test_a_mistake_in_a_file_is_told_under_the_name_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("a: [")
    assert refusal(lambda: read_policy_file(Path("p.yaml"))).startswith("p.yaml:1:5: ")


@pytest.mark.proves("H5")
@pytest.mark.parametrize("name", ["missing.yaml", "missing/p.yaml", "dangling.yaml"])
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "dangling.yaml").symlink_to("nothing")
    path = tmp_path / name
    advice = "there is no such file; name another one, or run `sayso init` to write one"
    assert refusal(lambda: read_policy_file(path)) == f"{path}: {advice}"


@pytest.mark.proves("H5")
def test_a_folder_is_refused(tmp_path: Path) -> None:
    message = refusal(lambda: read_policy_file(tmp_path))
    assert message.startswith(f"{tmp_path}: this cannot be read (it is a folder, no regular file); check its name")


@pytest.mark.proves("H5")
def test_a_pipe_a_socket_and_a_device_are_refused_without_waiting_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")):
            message = refusal(lambda path=path: read_policy_file(path))
            assert message.startswith(
                f"{path}: this cannot be read (it is a pipe, socket or device, no regular file); "
            )


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/p.yaml", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_file_that_the_system_does_not_open_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert f": this cannot be read ({reason}); " in refusal(lambda: read_policy_file(tmp_path / name))


@pytest.mark.proves("H5")
def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"this cannot be read .*; check its name and who may read it"):
        read_policy_file(Path("p\0.yaml"))


@pytest.mark.proves("H5")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    mine = os.geteuid()
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    if mine == 0:
        os.seteuid(65534)  # root may read every file, so somebody else has to try
    try:
        told = refusal(lambda: read_policy_file(path))
    finally:
        os.seteuid(mine)
    assert ": this cannot be read (Permission denied); " in told


@pytest.mark.proves("H5")
def test_a_file_that_opens_but_cannot_be_read_is_refused() -> None:
    assert ": this cannot be read (Input/output error); " in refusal(lambda: read_policy_file(Path("/proc/self/mem")))


@pytest.mark.proves("H5")
def test_a_large_file_is_refused_without_reading_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(lambda: read_policy_file(path)) == f"{path}: this is larger than 5 MB; a policy has to be smaller"
