"""Strict lexer for bash: returns exactly the commands that a line runs, or raises if it cannot prove them.

It accepts a subset of bash, and reads that subset exactly as bash does; the tests compare the two. A refused line is
not an error: it means that a person has to judge it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Never

import msgspec

_LONGEST = 10_000  # characters
_MOST_PARTS = 100
_META = frozenset(" \t\n|&;()<>")
_OPERATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
_BEGINS_OPERATOR = frozenset("&|;\n")
_NEEDS_NEXT = frozenset({"&&", "||", "|", "|&"})  # operators that need a command behind them
_REDIRECTIONS = ("&>>", "&>", ">>", ">&", ">|", ">(", "<<", "<>", "<&", "<(", ">", "<")
_WRITES = frozenset({">", ">>", "&>", "&>>"})
_RESERVED = frozenset({
    "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done", "case", "esac", "coproc",
    "select", "function", "{", "}", "[[", "]]", "!",
})  # fmt: skip
_GOVERNING = frozenset({
    "PATH", "IFS", "ENV", "BASH_ENV", "BASH_COMPAT", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT", "GLOBIGNORE",
    "EXECIGNORE",
})  # fmt: skip
# Runs of characters that need no reader of their own: reading them at once is what makes long words cheap.
_ORDINARY = re.compile(r"""[^ \t\n|&;()<>'"\\$`*?\[~{}=]+""")
_ORDINARY_QUOTED = re.compile(r'[^"\\$`]+')
# Blanks, continuations and comments: between words, and between commands.
_SKIPPED = re.compile(r"(?:[ \t]+|\\\n|#[^\n]*)*")
_SKIPPED_LINES = re.compile(r"(?:[ \t\n]+|\\\n|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?")
_LITERAL = re.compile(r"(?:[^{}]|\{[^{},.]*\})*")  # braces with nothing to choose from: `HEAD@{1}..HEAD`
_TIME = re.compile(r"time[ \t]+(?:-p[ \t]+)?(?=[\w./])(?!(?:time|coproc)\b)")
_DESCRIPTOR = re.compile(r"[0-9]{1,2}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_HIDDEN_CATEGORIES = frozenset({"Cf", "Zl", "Zp", "Zs", "Co", "Cn"})
# Letters, marks and symbols that are invisible.
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class NotProvable(ValueError):
    """Error: the commands of a line cannot be proved; the reason in words, and the offset in characters."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class Redirect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One redirection: the descriptor as written (or nothing), the operator, and the file or descriptor behind it."""

    fd: str
    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether a file is written."""
        return self.operator in _WRITES


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One simple command of a line, and the operator behind it."""

    argv: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[str, ...] = ()
    expands: frozenset[str] = frozenset()
    operator: str = ""
    text: str = ""


def lex(text: str, *, expand: frozenset[str] = frozenset()) -> tuple[Part, ...]:
    """Return the commands that bash would run, in order.

    `expand` names the expansions (`glob`, `tilde`) that operands may have; such words are left unexpanded.

    Raises:
        NotProvable: bash might run other commands, or computed ones.
    """
    _check_characters(text)
    return _Lexer(text, expand).script()


def hidden_character(text: str) -> int | None:
    """Return the offset of the first invisible or control character, if there is one."""
    found = [match.start() for match in (_CONTROL.search(text), _HIDDEN.search(text)) if match]
    if not text.isascii():
        odd = (at for at, char in enumerate(text) if char > "~" and unicodedata.category(char) in _HIDDEN_CATEGORIES)
        found.extend(at for at in (next(odd, None),) if at is not None)
    return min(found, default=None)


def _check_characters(text: str) -> None:
    if len(text) > _LONGEST:
        raise NotProvable(f"the line is longer than {_LONGEST} characters", _LONGEST)
    hidden = hidden_character(text)
    if hidden is not None:
        raise NotProvable(f"it contains the invisible character U+{ord(text[hidden]):04X}", hidden)


class _Word:
    """State of the word that is being read."""

    __slots__ = ("assigns", "bare", "braces", "expands", "start", "text")

    def __init__(self, start: int) -> None:
        self.start = start
        self.text = ""
        self.bare = True  # no quote or escape so far
        self.assigns = False
        self.braces = False
        self.expands: set[str] = set()


class _Lexer:
    def __init__(self, text: str, expand: frozenset[str]) -> None:
        self.text = text
        self.size = len(text)
        self.at = 0
        self.expand = expand

    def refuse(self, reason: str, offset: int | None = None) -> Never:
        raise NotProvable(reason, self.at if offset is None else offset)

    def script(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        self._skip(_SKIPPED_LINES)
        while self.at < self.size:
            parts.append(self._read_part(follows=parts[-1].operator if parts else ""))
            if len(parts) > _MOST_PARTS:
                self.refuse(f"the line has more than {_MOST_PARTS} parts")
            self._skip(_SKIPPED_LINES)
        if parts and parts[-1].operator in _NEEDS_NEXT:
            self.refuse(f"nothing follows {parts[-1].operator}")
        return tuple(parts)

    def _skip(self, skipped: re.Pattern[str]) -> None:
        match = skipped.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _read_part(self, follows: str) -> Part:
        start = self.at
        if follows not in {"|", "|&"}:
            self._skip_time()
        argv: list[str] = []
        redirects: list[Redirect] = []
        assignments: list[str] = []
        expands: set[str] = set()
        while True:
            self._skip(_SKIPPED)
            if self._at_redirection():
                redirects.append(self._read_redirection(""))
                continue
            end = self.at
            operator = self._read_operator()
            if operator is not None:
                break
            if any(each.operator.startswith("&>") for each in redirects):
                self.refuse("a word behind &>, which other shells read as another command")
            word = self._read_word()
            expands |= word.expands
            if self._is_descriptor(word):
                redirects.append(self._read_redirection(word.text))
            elif word.assigns and not argv:
                assignments.append(self._check_assignment(word))
            else:
                argv.append(word.text if argv else self._check_command_name(word))
        if not argv and not redirects and not assignments:
            self.refuse("an operator has nothing before it", start)
        return Part(
            argv=tuple(argv),
            redirects=tuple(redirects),
            assignments=tuple(assignments),
            expands=frozenset(expands),
            operator=operator,
            text=self.text[start:end].rstrip(),
        )

    def _skip_time(self) -> None:
        """Skip the grammar's word `time`, which measures the pipeline behind it, and its option."""
        match = _TIME.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _read_operator(self) -> str | None:
        """Read the operator at the current offset; None if there is no operator, empty at the end."""
        if self.at == self.size:
            return ""
        if self.text[self.at] not in _BEGINS_OPERATOR:
            return None
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                self._refuse_continuation(operator)
                if operator == ";" and self.text[self.at : self.at + 1] in {"&", ";"}:
                    self.refuse("an operator of `case`")
                return operator
        return None

    def _refuse_continuation(self, operator: str) -> None:
        """Refuse an operator that is split by a continuation, which bash would join."""
        if operator != "\n" and self.text.startswith("\\\n", self.at):
            self.refuse("an operator is split by a continuation")

    def _at_redirection(self) -> bool:
        return self.at < self.size and (self.text[self.at] in "<>" or self.text.startswith("&>", self.at))

    def _is_descriptor(self, word: _Word) -> bool:
        """Whether the word belongs to the redirection right behind it."""
        if self.at == self.size or self.text[self.at] not in "<>":
            return False
        if word.text.startswith("{") and word.text.endswith("}"):
            self.refuse("a redirection sets a variable", word.start)  # its index may be evaluated
        if not word.bare:
            return False
        if word.text.isdigit() and not _DESCRIPTOR.fullmatch(word.text):
            self.refuse("a redirection has a descriptor of many digits", word.start)
        return word.text.isdigit()

    def _read_redirection(self, fd: str) -> Redirect:
        operator = next(each for each in _REDIRECTIONS if self.text.startswith(each, self.at))
        start = self.at
        if operator in _ODD_REDIRECTIONS:
            self.refuse(_ODD_REDIRECTIONS[operator])
        self.at += len(operator)
        self._refuse_continuation(operator)
        while self.text.startswith((" ", "\t", "\\\n"), self.at):
            self.at += 2 if self.text[self.at] == "\\" else 1
        if self.at == self.size or self.text[self.at] in _META or self.text[self.at] == "#":
            self.refuse("a redirection has no target", start)
        target = self._read_word()
        if target.bare and not target.text:
            self.refuse("a redirection has no target", start)  # only a continuation
        digits = target.bare and _DESCRIPTOR.fullmatch(target.text) is not None
        if operator == ">&" and not digits:
            self.refuse("a redirection writes to a file with >&", start)
        if operator != ">&" and target.bare and target.text.isdigit() and self._at_redirection():
            self.refuse("a redirection has a descriptor as its target", start)
        if target.expands or target.braces:
            self.refuse("a redirection's target is expanded", start)
        return Redirect(fd=fd, operator=operator, target=target.text)

    def _read_word(self) -> _Word:
        word = _Word(self.at)
        while self.at < self.size and (char := self.text[self.at]) not in _META:
            _READERS.get(char, _Lexer.plain)(self, word)
        if self.at < self.size and self.text[self.at] in "()":
            self.refuse("a bracket: a subshell, a function or a list")
        if (
            word.braces
            and ("," in word.text or ".." in word.text)
            and not (word.bare and _LITERAL.fullmatch(word.text))
        ):
            self.refuse("braces are expanded", word.start)
        if word.text == "[":  # alone it is no pattern, but a command
            word.expands.clear()
        if not word.expands <= self.expand:
            kind = "a pattern of file names" if "glob" in word.expands else "a home folder (~)"
            self.refuse(f"{kind} is expanded", word.start)
        return word

    def _check_command_name(self, word: _Word) -> str:
        if word.expands or word.braces:
            self.refuse("the command's name is expanded", word.start)
        if word.bare and word.text in _RESERVED:
            self.refuse(f"{word.text!r} is a word of the shell's grammar", word.start)
        if not word.text or word.text.startswith("%"):
            self.refuse("the command has no ordinary name", word.start)
        return word.text

    def _check_assignment(self, word: _Word) -> str:
        name = word.text.partition("=")[0].rstrip("+")
        if name in _GOVERNING or (name.startswith(("LANG", "LC_")) and not self.text.isascii()):
            self.refuse(f"{name} is set, which changes how bash reads or finds commands", word.start)
        return word.text

    # Readers of the characters of a word.

    def plain(self, word: _Word) -> None:
        self._read_run(word, _ORDINARY)

    def _read_run(self, word: _Word, run: re.Pattern[str]) -> None:
        """Read the ordinary characters from here on, at least one character."""
        match = run.match(self.text, self.at)
        end = self.at + 1 if match is None else match.end()
        word.text += self.text[self.at : end]
        self.at = end

    def equals(self, word: _Word) -> None:
        if word.bare and _NAME.fullmatch(word.text):
            word.assigns = True
        self.plain(word)

    def expansion(self, _: _Word) -> None:
        self.refuse("a variable, a substitution or another expansion")

    def glob(self, word: _Word) -> None:
        word.expands.add("glob")
        self.plain(word)

    def tilde(self, word: _Word) -> None:
        if not word.text or word.text[-1] in "=:":
            word.expands.add("tilde")
        self.plain(word)

    def brace(self, word: _Word) -> None:
        word.braces = True
        self.plain(word)

    def single(self, word: _Word) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.refuse("a quote is not closed")
        word.text += self.text[self.at + 1 : end]
        word.bare = False
        self.at = end + 1

    def double(self, word: _Word) -> None:
        word.bare = False
        start = self.at
        self.at += 1
        while self.at < self.size:
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char in "$`":
                self.refuse("a variable, a substitution or another expansion")
            if char == "\\" and self.at + 1 < self.size and self.text[self.at + 1] in '$`"\\\n':
                word.text += self.text[self.at + 1].replace("\n", "")
                self.at += 2
                continue
            self._read_run(word, _ORDINARY_QUOTED)
        self.refuse("a quote is not closed", start)

    def escape(self, word: _Word) -> None:
        if self.at + 1 == self.size:
            self.refuse("a backslash at the end")
        char = self.text[self.at + 1]
        if char != "\n":
            word.text += char
            word.bare = False
        self.at += 2


_ODD_REDIRECTIONS = {
    ">|": "a redirection writes with >|",
    ">(": "a process substitution",
    "<<": "a here-document or here-string",
    "<>": "a redirection opens a file for reading and writing",
    "<&": "a redirection reads from a descriptor",
    "<(": "a process substitution",
}
_READERS: dict[str, Callable[[_Lexer, _Word], None]] = {
    "'": _Lexer.single,
    '"': _Lexer.double,
    "\\": _Lexer.escape,
    "$": _Lexer.expansion,
    "`": _Lexer.expansion,
    "*": _Lexer.glob,
    "?": _Lexer.glob,
    "[": _Lexer.glob,
    "~": _Lexer.tilde,
    "{": _Lexer.brace,
    "}": _Lexer.brace,
    "=": _Lexer.equals,
}
