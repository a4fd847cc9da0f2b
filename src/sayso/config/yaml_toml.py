"""YAML and TOML parser: reads a policy document into plain data with the line and column of every key and list item.

Everything that two parsers could read differently is refused: anchors, tags, merge keys, duplicate keys, several
documents, keys that are not texts. YAML is read event by event without recursion, so a hostile file meets a limit.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never, cast

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from sayso.config.read_file import FileSpec, Mark, decode, file_error, mark_at_end, read_bytes
from sayso.errors import ConfigurationError

Key = tuple[str | int, ...]
_Untyped = Any  # the parsers' values are untyped

_DEEPEST = 50
_LONGEST_NUMBER = 1000
_LARGEST_NUMBER = 10**_LONGEST_NUMBER
_POLICY_SPEC = FileSpec(
    what="a policy",
    missing="name another one, or run `sayso init` to write one",
    empty="write a policy, or run `sayso init` to have one written",
    start="start a policy with a line such as `version: 1`",
    largest=5_000_000,
)
_TOO_DEEP = f"this is nested deeper than {_DEEPEST} levels; write it flatter"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed document: plain data, and the position of each key."""

    source: str
    data: dict[str, Any]
    marks: Mapping[Key, Mark]

    def mark(self, key: Key) -> Mark:
        """Return the position of a key, or of its nearest ancestor with a known position."""
        while key and key not in self.marks:
            key = key[:-1]
        return self.marks[key]


def read_policy_file(path: Path) -> Document | None:
    """Read a policy file; None for a TOML file without a `[tool.sayso]` table."""
    source = str(path)
    content = read_bytes(path, _POLICY_SPEC)
    return read_pyproject(content, source) if path.suffix.lower() == ".toml" else read_yaml(content, source)


def _quote(text: object, longest: int = 60) -> str:
    words = str(text)
    return repr(words if len(words) <= longest else words[:longest] + "…")


def _check_plain_data(value: object, path: Key, document: Document) -> None:
    """Refuse data that cannot be serialised again; recursion ends at the deepest level."""
    if isinstance(value, dict | list):
        if len(path) >= _DEEPEST:
            raise file_error(document.source, _TOO_DEEP, document.mark(path))
        items = (
            cast("dict[str, Any]", value).items() if isinstance(value, dict) else enumerate(cast("list[Any]", value))
        )
        for key, item in items:
            _check_plain_data(item, (*path, key), document)
    elif problem := _value_problem(value):
        raise file_error(document.source, f"{_quote('.'.join(map(str, path)))} {problem}", document.mark(path))


def _value_problem(value: object) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number; write one, or put a text in quotes"
    if isinstance(value, int) and abs(value) >= _LARGEST_NUMBER:
        return f"is a number of {_LONGEST_NUMBER} digits or more; write a smaller one, or put a text in quotes"
    return None if isinstance(value, str | int | float | None) else "is a date or time; put it in quotes"


# --- YAML ----------------------------------------------------------------------------------------------------

# Refused before parsing. Line separators and a byte order mark inside the text, because editors, people and parsers
# differ in whether a new line starts there. Two kinds of long words, because the parser builds them character by
# character in quadratic time: 1 MB would take 20 seconds, and 2 MB three minutes.
_REFUSED = (
    (r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", "is invisible; delete it"),
    (r"(?<![^\s\"'\]}])[|>][-+0-9]*(?: {1000}| *#[^\r\n]{1000})", "stands before far too long a comment; shorten that"),
    (r"(?<![^\s\[{,:?])!\S{1000}", "looks like a tag, and far too long a one; put a text in quotes"),
)

# The core schema of YAML 1.2 to the letter: `no` and `on` are texts, and so are dates, `1_000` and `0b1`.
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(
    r"(?P<ten>[-+]?[0-9]+)|(?P<eight>0o[0-7]+)|(?P<sixteen>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BASES: Mapping[str | None, int] = {"ten": 10, "eight": 8, "sixteen": 16}

# The parser's message, the message for people, and whether the position is where the problem began or where it showed.
_HINTS = (
    ("a quoted scalar", "the quote that opens here is never closed; close it", True),
    ("expected ',' or", "here the brackets that open on line {began} need a `,` or their end; add it", False),
    ("node content", "here a value is missing, or brackets are not closed; write it, or close them", False),
    ("'\\t' that cannot start", "a tab stands here, where YAML wants spaces; use spaces", False),
    ("cannot start any token", "a text cannot start with this character; put the text in quotes", False),
    ("scanning an alias", "a text cannot start with `*`; put a glob in quotes", True),
    ("values are not", "a `:` cannot stand here; indent like the lines above, or put the text in quotes", False),
    ("entries are not", "a list item cannot start here; put each `-` on its own line, indented alike", False),
    ("find expected ':'", "this line has no `:` behind its key; write `key: value`", True),
    ("<block end>", "this does not fit the lines above; indent it alike, or put the text in quotes", False),
    ("escape", "a `\\` starts an unknown escape here; write `\\\\`, or use single quotes", False),
)


def read_yaml(content: bytes, source: str, spec: FileSpec = _POLICY_SPEC) -> Document:
    """Read a YAML file that holds one mapping."""
    text = decode(content, source, spec)
    for pattern, problem in _REFUSED:
        if found := re.search(pattern, text):
            raise file_error(source, f"{_quote(found[0])} {problem}", mark_at_end(text[: found.start()]))
    builder = _Builder(source, spec)
    for event in _events(text, source):
        builder.add_event(event)
    if builder.data is None:
        raise file_error(source, f"this file is empty; {spec.empty}")
    document = Document(source=source, data=builder.data, marks=builder.marks)
    _check_plain_data(document.data, (), document)
    return document


def _events(text: str, source: str) -> Iterator[_Untyped]:
    parser: _Untyped = YAML(typ="safe", pure=True)
    mark = Mark(1, 1)
    try:
        for event in parser.parse(text):
            mark = _to_mark(event.start_mark)
            yield event
    except MarkedYAMLError as error:
        raise _translate_error(error, source, mark) from None
    except (YAMLError, ArithmeticError, AssertionError, ValueError):
        # The parser fails on an escape of no character, and on an unknown version.
        problem = "this, or what follows, is not YAML, such as an escape `\\U` of no character; correct it"
        raise file_error(source, problem, mark) from None


def _translate_error(error: _Untyped, source: str, last: Mark) -> ConfigurationError:
    started = _to_mark(error.context_mark) if error.context_mark else last
    showed = _to_mark(error.problem_mark) if error.problem_mark else started
    for said, sentence, at_start in _HINTS:
        if said in f"{error.context} {error.problem}":
            return file_error(source, sentence.format(began=started.line), started if at_start else showed)
    return file_error(source, f"this is not YAML ({_quote(error.problem or error.context, 200)}); correct it", showed)


def _to_mark(mark: _Untyped) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _resolve_scalar(text: str) -> object:
    """Return the value of a scalar without quotes, by the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if not (number := _NUMBER.fullmatch(text)):
        return text
    if len(text) > _LONGEST_NUMBER:  # the conversion takes quadratic time
        return _LARGEST_NUMBER
    if number.lastgroup in _BASES:
        return int(text, _BASES[number.lastgroup])
    return float(text) if number.lastgroup else math.inf


def _unsupported_feature(kind: str, event: _Untyped) -> str | None:
    """Return the refusal of an event that is more than plain data."""
    if kind == "DocumentStart" and (event.tags or event.version not in {None, (1, 2)}):
        return "the lines above that start with `%` are not read; delete them"
    if kind == "Alias":
        return f"{_quote('*' + event.anchor)} is an alias; write out what it stands for, or put a glob in quotes"
    if kind in {"Scalar", "MappingStart", "SequenceStart"} and event.anchor is not None:
        return f"{_quote('&' + event.anchor)} is an anchor; write out what it stands for wherever it is used"
    if kind in {"Scalar", "MappingStart", "SequenceStart"} and event.tag is not None:
        return f"the tag {_quote(event.tag)} is not read; write a plain value, or put a text in quotes"
    return None


_BETWEEN = -1  # the index or key between two items


class _Builder:
    """Event-driven builder of the data and of the position of each key."""

    def __init__(self, source: str, spec: FileSpec) -> None:
        self._spec = spec
        self.data: dict[str, Any] | None = None
        self.marks: dict[Key, Mark] = {}
        self._source = source
        self._ended = False
        # The stack of open containers, and for each the index or key that is being read.
        self._open: list[dict[str, Any] | list[Any]] = []
        self._path: list[str | int] = []

    def add_event(self, event: _Untyped) -> None:
        kind, mark = event.__class__.__name__.removesuffix("Event"), _to_mark(event.start_mark)
        if kind == "DocumentStart" and self._ended:
            self._refuse("a second document starts here; keep one in a file", mark)
        if problem := _unsupported_feature(kind, event):
            self._refuse(problem, mark)
        if kind == "Scalar":
            self._add_scalar(event.value, mark, plain=event.style is None)
        elif kind in {"MappingStart", "SequenceStart"}:
            self._open_container({} if kind == "MappingStart" else [], mark)
        elif kind in {"MappingEnd", "SequenceEnd"}:
            self._close_container()
        self._ended = self._ended or kind == "DocumentEnd"

    def _refuse(self, problem: str, mark: Mark) -> Never:
        raise file_error(self._source, problem, mark)

    def _open_container(self, value: dict[str, Any] | list[Any], mark: Mark) -> None:
        if len(self._open) >= _DEEPEST:
            self._refuse(_TOO_DEEP, mark)
        self._add_value(value, mark)
        self._open.append(value)
        self._path.append(_BETWEEN)

    def _close_container(self) -> None:
        del self._open[-1], self._path[-1]
        if self._open:
            self._path[-1] = _BETWEEN

    def _add_scalar(self, text: str, mark: Mark, *, plain: bool) -> None:
        if re.search("[\ud800-\udfff]", text):
            self._refuse("this text has half a character as an escape; write the character itself", mark)
        value = _resolve_scalar(text) if plain else text
        if self._wants_key():
            self._start_key(value, text, mark, plain=plain)
        elif self._open or text or not plain:  # a `---` without content is an empty file
            self._add_value(value, mark)
            self._path[-1] = _BETWEEN

    def _wants_key(self) -> bool:
        return bool(self._open) and self._path[-1] == _BETWEEN and isinstance(self._open[-1], dict)

    def _start_key(self, key: object, text: str, mark: Mark, *, plain: bool) -> None:
        if not isinstance(key, str):
            self._refuse(f"the key {_quote(text)} has no quotes and is not read as a text; put it in quotes", mark)
        if key == "<<" and plain:
            self._refuse("`<<` merges another mapping into this one; write out what that says", mark)
        self._path[-1] = key
        first = self.marks.setdefault(tuple(self._path), mark)
        if first != mark:
            self._refuse(f"the key {_quote(key)} is on lines {first.line} and {mark.line}; keep one of them", mark)

    def _add_value(self, value: object, mark: Mark) -> None:
        if self._wants_key():
            self._refuse("a list or mapping cannot be a key; use a text", mark)
        if not self._open:
            if not isinstance(value, dict):
                self._refuse(f"this file does not hold a mapping; {self._spec.start}", mark)
            self.data, self.marks[()] = cast("dict[str, Any]", value), mark
        elif isinstance(parent := self._open[-1], list):
            self._path[-1] = len(parent)
            self.marks[tuple(self._path)] = mark
            parent.append(value)
        else:
            parent[cast("str", self._path[-1])] = value


# --- TOML ----------------------------------------------------------------------------------------------------

_TABLE = ("tool", "sayso")
_WORD = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*')"""
# The start of a line at the top level: `[table]`, `[[list of tables]]` or `key =`.
_STATEMENT = re.compile(rf"[ \t]*+(?P<brackets>\[?+\[?+)[ \t]*+(?P<key>{_WORD}(?:[ \t]*+\.[ \t]*+{_WORD})*+)")
# A key of too many words: for each word, tomllib keeps a copy of all words before it.
_ENDLESS_KEY = re.compile(rf"(?m)^[ \t]*+\[?+\[?+[ \t]*+(?:{_WORD}[ \t]*+\.[ \t]*+){{{_DEEPEST + len(_TABLE)}}}")
# The tokens that decide whether a line is at the top level: texts, comments, brackets and line ends.
_TOKEN = re.compile(
    r'(?s)"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r"""|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]"""
)
_PLACE = re.compile(r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)


def read_pyproject(content: bytes, source: str) -> Document | None:
    """Read the `[tool.sayso]` table of a TOML file; None if it has none."""
    text = decode(content, source, _POLICY_SPEC)
    tool = _parse_toml(text, source).get("tool")
    table = cast("dict[str, Any]", tool).get("sayso") if isinstance(tool, dict) else None
    if table is None:
        return None
    marks = _toml_marks(text)
    if not isinstance(table, dict):
        raise file_error(source, "`tool.sayso` is not a table; write it as `[tool.sayso]`", marks[()])
    document = Document(source=source, data=cast("dict[str, Any]", table), marks=marks)
    _check_plain_data(document.data, (), document)
    return document


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    if found := _ENDLESS_KEY.search(text):
        raise file_error(source, _TOO_DEEP, mark_at_end(text[: found.start()]))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise file_error(source, _TOO_DEEP) from None
    except ValueError as error:  # invalid TOML, or a number too long for Python
        found = _PLACE.fullmatch(str(error))
        end = mark_at_end(text) if found else None
        mark = Mark(int(found["line"]), int(found["column"])) if found and found["line"] else end
        reason = _quote(found["problem"] if found else error, 200)
        raise file_error(source, f"this is not TOML ({reason}); correct it", mark) from None


def _toml_marks(text: str) -> dict[Key, Mark]:
    """Return the position of every table and of every `key =` that starts a line; an inline key has its parent's."""
    marks: dict[Key, Mark] = {}
    lengths: dict[Key, int] = {}
    table: Key = ()
    for line, start in _statements(text):
        if found := _STATEMENT.match(text, start):
            words = [_unquote(word) for word in re.findall(_WORD, found["key"])]
            key = _full_key(() if found["brackets"] else table, words, lengths)
            if found["brackets"] == "[[":
                lengths[key] = lengths.get(key, 0) + 1
                key = (*key, lengths[key] - 1)
            table = key if found["brackets"] else table
            for end in range(len(key) + 1):
                marks.setdefault(key[:end], Mark(line, found.start("brackets") - start + 1))
    ours = {key[len(_TABLE) :]: mark for key, mark in marks.items() if key[: len(_TABLE)] == _TABLE}
    return {(): marks.get(_TABLE[:1], Mark(1, 1)), **ours}


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield the number and the offset of every line that does not continue the one before it."""
    line, depth = 1, 0
    yield 1, 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        line += token[0].count("\n")
        if token[0] == "\n" and depth == 0:
            yield line, token.end()


def _full_key(table: Key, words: list[str], lengths: Mapping[Key, int]) -> Key:
    """Return the full key of some words in a table; a name of a list of tables means its last table."""
    key = (*table, words[0])
    for word in words[1:]:
        key = (*key, lengths[key] - 1, word) if key in lengths else (*key, word)
    return key


def _unquote(word: str) -> str:
    return tomllib.loads(f"key = {word}")["key"] if word[0] in "\"'" else word
