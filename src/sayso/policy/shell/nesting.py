"""Tolerant bash parser: the commands of a script at every depth of substitution, bracket, quote and here-document.

It follows the nesting as bash does, but never gives up: malformed text is parsed on, and the result is marked as broken
if the nesting is not balanced. It serves to find blocked commands, never to let anything run.

Tests: tests/policy/shell/test_block_scan.py
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from sayso.policy.shell.quoting import dequoted, masked

_DEEPEST = 30
_CODE = re.compile(
    r"(?P<plain>[^\s'\"\\$`|&;()<>\#\[]+)"
    r"|(?P<blank>[ \t\r\f\v\xa0]+)"
    r"|(?P<single>'[^']*'?)"
    r"|(?P<ansi>\$'(?:[^'\\]|\\.)*'?)"
    r"|(?P<quote>\$?\")"
    r"|(?P<arithmetic>\$?\(\()"
    r"|(?P<open>[$<>]?\()"
    r"|(?P<brace>\$\{)"
    r"|(?P<index>\$?\[)"
    r"|(?P<backtick>`(?:[^`\\]|\\.)*`?)"
    r"|(?P<redirect>(?:<<<|&>>|&>|>>|>\||>&|<<-|<<|<>|<&|>|<)[ \t]*)"
    r"|(?P<end>[\n;|&)])"
    r"|(?P<escape>\\.)"
    r"|(?P<comment>\#)"
    r"|(?P<odd>.)",
    re.DOTALL,
)
_TEXT = re.compile(
    r"(?P<plain>[^'\"\\$`()}\[\]]+)"
    r"|(?P<single>'[^']*'?)"
    r"|(?P<ansi>\$'(?:[^'\\]|\\.)*'?)"
    r"|(?P<quote>\")"
    r"|(?P<arithmetic>\$\(\()"
    r"|(?P<open>\$\()"
    r"|(?P<brace>\$\{)"
    r"|(?P<index>\$\[)"
    r"|(?P<backtick>`(?:[^`\\]|\\.)*`?)"
    r"|(?P<bracket>[()}\[\]])"
    r"|(?P<escape>\\.)"
    r"|(?P<odd>.)",
    re.DOTALL,
)
_BRACKETS = {"((": "()", "pattern": "()", "[": "[]", "${": " }"}
_LITERAL = frozenset({'"', "document"})  # where single quotes are ordinary characters
_DESCRIPTOR = re.compile(r"[0-9]+|\{.*\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[.*\])?\+?=", re.DOTALL)
_ESCAPED = re.compile(r"\\([$`\\])")
_BLANKS = frozenset(" \t\n")
_BEFORE_COMMENT = frozenset(" \t\n;|&()<>")
# Reserved words that precede a command.
GRAMMAR = frozenset({
    "if", "then", "elif", "else", "while", "until", "do", "coproc", "!", "{", "}", "function", "for", "select", "case",
    "in", "time", "-p", "--",
})  # fmt: skip


class TooComplex(ValueError):
    """Error: the scripts nested in a line exceed the limit of the analysis."""


class _Frame:
    """Stack frame of an open construct: kind, offset, depth of its brackets, and whether it is part of a word."""

    __slots__ = ("brackets", "glued", "kind", "quoted", "start")

    def __init__(self, kind: str, start: int, *, glued: bool = True, quoted: bool = False) -> None:
        self.kind = kind
        self.start = start
        self.glued = glued
        self.quoted = quoted or kind in _LITERAL
        self.brackets = 0


class _Command:
    """State of the command that is being parsed."""

    __slots__ = ("begun", "cases", "quoted", "target", "tests", "word", "words")

    def __init__(self) -> None:
        self.words: list[str] = []
        self.word: list[str] = []
        self.quoted = False  # a part of the word is quoted
        self.target = ""  # the redirection operator whose target is the next word
        self.begun = False  # its name has been read
        self.cases = 0  # the number of open `case` constructs, whose patterns end with a bracket
        self.tests = False  # between [[ and ]]


class ParsedScript(msgspec.Struct, kw_only=True):
    """Parse result: the contents of a script at every depth."""

    commands: list[list[str]] = []  # the words of each command, with assignments and reserved words
    documents: list[tuple[str, bool]] = []  # the here-documents, and whether they are quoted, so not expanded
    scripts: list[str] = []  # the texts in backticks
    written: set[str] = set()  # the files that redirections write, without their folders
    rest: str = ""  # the script without its here-documents
    broken: bool = False  # the nesting is not balanced


def parse_script(text: str, *, document: bool = False) -> ParsedScript:
    """Parse a script, or the text of a here-document, in which only substitutions run.

    Raises:
        TooComplex: it is nested too deeply.
    """
    return _ScriptParser(text, document=document).parse()


class _ScriptParser:
    def __init__(self, text: str, *, document: bool) -> None:
        self.text = text
        self.at = 0
        self.found = ParsedScript()
        self.document = document
        self.frames = [_Frame("(", 0), *([_Frame("document", 0)] if document else [])]
        self.commands = [_Command()]  # a stack: the commands being parsed
        self.awaited: list[tuple[str, bool, bool]] = []  # here-documents that begin on the next line
        self.endless = False  # a here-document has no end
        self.left_out: list[tuple[int, int]] = []

    def parse(self) -> ParsedScript:
        while match := (_CODE if self.frames[-1].kind == "(" else _TEXT).match(self.text, self.at):
            self.at = match.end()
            _READERS[str(match.lastgroup)](self, match)
        self.found.broken |= len(self.frames) > 1 + self.document
        if self.document:
            self.commands[0].word = []  # the text of the document is no command
        else:
            self.found.rest = self._without_documents()
        while self.commands:
            self._end_command()
            self.commands.pop()
        return self.found

    def _without_documents(self) -> str:
        kept: list[str] = []
        at = 0
        for start, end in self.left_out:
            kept.append(self.text[at:start])
            at = end
        return "".join([*kept, self.text[at:]])

    # Tokens that open and close a construct.

    def _push(self, kind: str, match: re.Match[str], *, glued: bool = True) -> None:
        if len(self.frames) >= _DEEPEST:
            raise TooComplex("it holds too many things inside others to look through")
        quoted = kind != "(" and self.frames[-1].quoted
        self.frames.append(_Frame(kind, match.start(), glued=glued, quoted=quoted))
        if kind == "(":
            self.commands.append(_Command())
        else:
            self.commands[-1].word.append("" if kind == '"' else match[0])

    def _pop(self) -> None:
        frame = self.frames.pop()
        if frame.kind == "(":
            self.commands.pop()
            if frame.glued:
                self.commands[-1].word.append(self.text[frame.start : self.at])

    def quote(self, match: re.Match[str]) -> None:
        self.commands[-1].quoted = True
        kind = self.frames[-1].kind
        if kind == '"':
            self._pop()
        elif kind == "document":
            self.plain(match)
        else:
            self._push('"', match)

    def arithmetic(self, match: re.Match[str]) -> None:
        if match[0] == "((" and self.commands[-1].word:
            self.at -= 1
            self._bracketed(match)  # `@((a)|b)` is a pattern
        else:
            self._push("((", match)

    def open(self, match: re.Match[str]) -> None:
        if match[0] == "(":
            self._bracketed(match)
        else:
            self._push("(", match)

    def _bracketed(self, match: re.Match[str]) -> None:
        command = self.commands[-1]
        last = command.word[-1][-1:] if command.word else ""
        if command.tests or (last and last in "?*+@!"):
            self._push("pattern", match)
        elif last == "=":
            self._push("(", match)  # an array
        else:
            self._end_command()
            self._push("(", match, glued=False)

    def brace(self, match: re.Match[str]) -> None:
        self._push("${", match)

    def index(self, match: re.Match[str]) -> None:
        """Parse up to the closing bracket, across blanks, if this is the index in an assignment."""
        command = self.commands[-1]
        named = len(command.word) == 1 and _NAME.fullmatch(command.word[0])
        if match[0] == "$[" or (named and not command.begun):
            self._push("[", match)
        else:
            self.plain(match)

    def bracket(self, match: re.Match[str]) -> None:
        frame = self.frames[-1]
        opens, closes = _BRACKETS.get(frame.kind, "  ")
        self.plain(match)
        if match[0] == opens:
            frame.brackets += 1
        elif match[0] == closes and frame.brackets:
            frame.brackets -= 1
        elif match[0] == closes:
            self._pop()
            if frame.kind == "((" and not self.text.startswith(")", self.at):
                self.found.broken = True  # commands in brackets, not arithmetic
            elif frame.kind == "((":
                self.at += 1

    # Tokens that are part of a word.

    def plain(self, match: re.Match[str]) -> None:
        self.commands[-1].word.append(match[0])

    def single(self, match: re.Match[str]) -> None:
        if self.frames[-1].quoted:
            self.at = match.start() + 1
            self.commands[-1].word.append(match[0][0])
            return
        kind, token = match.lastgroup, match[0]
        self.found.broken |= not token.endswith("'") or token in {"'", "$'"}
        self.commands[-1].quoted = True
        self.commands[-1].word.append(dequoted(kind, token))

    def escape(self, match: re.Match[str]) -> None:
        if match[0] == "\\\n":
            return
        self.commands[-1].quoted = True
        quoted = self.frames[-1].quoted
        char = match[0][1]
        self.commands[-1].word.append(match[0] if quoted and char not in '$`"\\' else masked(char) if quoted else char)

    def backtick(self, match: re.Match[str]) -> None:
        self.found.broken |= not match[0].endswith("`") or match[0] == "`"
        self.found.scripts.append(_ESCAPED.sub(r"\1", match[0][1:].removesuffix("`")))
        self.plain(match)

    # Tokens between words.

    def blank(self, _: re.Match[str]) -> None:
        self._end_word()

    def comment(self, match: re.Match[str]) -> None:
        start, command = match.start(), self.commands[-1]
        allowed = _BLANKS if command.tests else _BEFORE_COMMENT  # in a test, operators may be part of a pattern
        if command.word or (start and self.text[start - 1] not in allowed):
            self.plain(match)
            return
        end = self.text.find("\n", start)
        self.at = len(self.text) if end < 0 else end

    def redirect(self, match: re.Match[str]) -> None:
        command = self.commands[-1]
        if not command.target and not command.quoted and _DESCRIPTOR.fullmatch("".join(command.word)):
            command.word = []
        self._end_word()
        command.target = match[0].strip()

    def end(self, match: re.Match[str]) -> None:
        command = self.commands[-1]
        self._end_word()
        if match[0] == ")" and command.cases:
            command.words = []  # a pattern of `case`
            return
        self._end_command()
        if match[0] == ")" and len(self.frames) > 1:
            self._pop()
        elif match[0] == "\n":
            self._read_documents()

    def _end_word(self) -> None:
        command = self.commands[-1]
        if not command.word and not command.quoted:
            return
        word = "".join(command.word)
        if command.target:
            self._end_target(command, word)
        else:
            self._follow_grammar(command, word)
            command.words.append(word)
            command.begun |= word not in GRAMMAR and not ASSIGNMENT.match(word)
        command.word, command.quoted, command.target = [], False, ""

    def _end_target(self, command: _Command, word: str) -> None:
        if command.target in {"<<", "<<-"}:
            self.awaited.append((word, command.quoted, command.target == "<<-"))
        elif command.target == "<<<":
            self.found.commands.append(["<<<", word])  # a here-string may be the input of a shell
        elif ">" in command.target:
            self.found.written.add(word.rpartition("/")[2])

    def _follow_grammar(self, command: _Command, word: str) -> None:
        if word == "]]":
            command.tests = False
        elif word == "esac" and command.cases and (not command.begun or command.words[-1] == "in"):
            command.cases -= 1
        elif not command.begun:
            command.tests |= word == "[["
            command.cases += word == "case"

    def _end_command(self) -> None:
        self._end_word()
        command = self.commands[-1]
        if command.words:
            self.found.commands.append(command.words)
        command.words, command.begun, command.target = [], False, ""

    def _read_documents(self) -> None:
        """Skip the here-documents that begin on this line; after one without an end, none is skipped."""
        for name, quoted, tabs in self.awaited:
            end = None if self.endless else self._end_of_document(name, tabs=tabs)
            if end is None:
                self.found.broken = self.endless = True
                break
            self.found.documents.append((self.text[self.at : end[0]], quoted))
            self.left_out.append((self.at, end[1]))
            self.at = end[1]
        self.awaited = []

    def _end_of_document(self, name: str, *, tabs: bool) -> tuple[int, int] | None:
        """Return the offsets of the line that ends a here-document."""
        at = self.at
        while at < len(self.text):
            end = self.text.find("\n", at) + 1 or len(self.text)
            line = self.text[at:end].removesuffix("\n")
            if (line.lstrip("\t") if tabs else line) == name:
                return at, end
            at = end
        return None


_READERS: dict[str, Callable[[_ScriptParser, re.Match[str]], None]] = {
    "plain": _ScriptParser.plain,
    "single": _ScriptParser.single,
    "ansi": _ScriptParser.single,
    "quote": _ScriptParser.quote,
    "arithmetic": _ScriptParser.arithmetic,
    "open": _ScriptParser.open,
    "brace": _ScriptParser.brace,
    "index": _ScriptParser.index,
    "backtick": _ScriptParser.backtick,
    "bracket": _ScriptParser.bracket,
    "escape": _ScriptParser.escape,
    "blank": _ScriptParser.blank,
    "comment": _ScriptParser.comment,
    "redirect": _ScriptParser.redirect,
    "end": _ScriptParser.end,
    "odd": _ScriptParser.plain,
}
