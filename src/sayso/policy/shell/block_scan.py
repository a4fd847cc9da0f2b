"""Block scan: over-approximates the commands that a line might run, to find what a rule blocks or asks about.

The strict lexer gives up on most of bash. Blocked commands must be found there too: in loops and functions, in
substitutions, in the script of another shell. So this scan prefers false positives, and reads each line in several
ways; only a quoted operand does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from sayso.policy.shell.expansions import possible_expansions
from sayso.policy.shell.inner_commands import any_suffix, reads_input, runs_file, scripts_in, with_inner_commands
from sayso.policy.shell.nesting import ASSIGNMENT, GRAMMAR, ParsedScript, TooComplex, parse_script
from sayso.policy.shell.quoting import MARK, dequoted, unmasked
from sayso.policy.shell.wrappers import Argv

_DEEPEST = 4
_LEAST_BUDGET, _BUDGET = 100_000, 12  # characters to scan: at least, and per character of the line
_TOKEN = re.compile(
    r"(?P<ansi>\$'(?:[^'\\]|\\.)*'?)"
    r"|(?P<double>\$?\"(?:[^\"\\]|\\.)*\"?)"
    r"|(?P<single>'[^']*'?)"
    r"|(?P<redirect>[0-9]*(?:<<<|&>>|&>|>>|>\||>&|<<-|<<|<>|<&|>(?!\()|<(?!\())[ \t]*)"
    r"|(?P<end>\$\(|[<>]\(|[\n;|&()`])"
    r"|(?P<blank>[ \t\r\f\v\xa0]+)"
    r"|(?P<escape>\\.)"
    r"|(?P<comment>(?<![^ \t\n;|&()`])(?<!\\.)\#[^\n]*)"
    r"|(?P<plain>[^\s'\"\\$`|&;()<>\#]+|.)",
    re.DOTALL,
)
_DYNAMIC = re.compile(r"[$`]")  # in a computed command name
_DYNAMIC_NAME = re.compile(r"(?:^|[;&|\n({])[ \t]*(?:\$\(|`)")
_RENAMES = frozenset({"alias", "hash", "set"})
_QUOTED_VALUES = re.compile(r"=(?:'([^']*)'|\"([^\"]*)\")")
_VALUES = re.compile(r"(?:^|[\s;&|(])[A-Za-z_][A-Za-z0-9_]*=['\"]?([^\s'\";&|]+)")
_MAY_RUN = re.compile(r"[\s$`\ue000\ue001]")  # in a word that is or contains a script
_DESCRIPTOR = re.compile(r"\{.*\}", re.DOTALL)
_How = Literal["run", "fed", "expanded"]  # how a script is used: in an expanded one, only substitutions run
# Variables whose values bash expands, and the syntax that makes it expand others: prompts and arithmetic.
_EXPANDED = frozenset({"PS0", "PS1", "PS2", "PS3", "PS4", "BASH_ENV", "ENV", "PROMPT_COMMAND"})
_EXPANDS = re.compile(r"@P|\(\(|\[\[|\$\[|\blet\b|\$\{[A-Za-z_0-9@*]*(?:\[|:[^-=+?])")


def scan_commands(text: str) -> Iterator[Argv]:
    """Yield every command that the line might run, with their inner commands.

    Raises:
        TooComplex: the scan exceeds its limit, so the line might run anything.
    """
    scan = _Scan(budget=_LEAST_BUDGET + _BUDGET * len(text))
    for reading in dict.fromkeys(possible_expansions(text)):
        yield from scan.commands(reading, 0)


class _Scan:
    """One scan of a line and the scripts in it, each once, with a budget of characters."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._seen: set[tuple[str, _How]] = set()

    def commands(self, script: str, depth: int, how: _How = "run") -> Iterator[Argv]:
        """Yield the commands of a script; in the input of a shell, a command may begin at any word."""
        if (script, how) in self._seen:
            return
        self._seen.add((script, how))
        self._budget -= len(script)
        if self._budget < 0:
            raise TooComplex("it holds too many scripts inside scripts to look through")
        parsed = parse_script(script, document=how == "expanded")
        found = [*parsed.commands, *_simple_commands(parsed.rest)]
        argvs = list(dict.fromkeys(argv for words in found for argv in _strip_grammar(words)))
        inner = list(dict.fromkeys(each for argv in argvs for each in with_inner_commands(argv)))
        for each in inner:
            yield each
            yield from self._scan_scripts(scripts_in(each), depth)
        words = [word for each in found for word in each]
        yield from self._scan_scripts(parsed.scripts, depth)
        yield from self._scan_scripts(_expanded_texts(words, parsed), depth, "expanded")
        scripts = [*(body for body, _ in parsed.documents), *(word for word in words if _MAY_RUN.search(word))]
        if how == "fed" or any(reads_input(each) for each in inner):
            values = ["".join(each) for each in _QUOTED_VALUES.findall(parsed.rest)]
            yield from (each for argv in argvs for each in any_suffix(argv))
            yield from self._scan_scripts([*scripts, *values], depth, "fed")
        elif parsed.written and any(runs_file(each, parsed.written) for each in inner):
            yield from self._scan_scripts(scripts, depth)
        elif _DYNAMIC_NAME.search(parsed.rest) or any(
            _DYNAMIC.search(each[0]) or each[0] in _RENAMES for each in inner
        ):
            yield from (each for argv in argvs for each in any_suffix(argv))  # any word may be the name
            yield from ((word,) for word in [*words, *_VALUES.findall(parsed.rest)])

    def _scan_scripts(self, scripts: Iterable[str], depth: int, how: _How = "run") -> Iterator[Argv]:
        for script in scripts:
            if depth >= _DEEPEST:
                raise TooComplex("it holds scripts inside scripts, too deep to look through")
            yield from self.commands(unmasked(script), depth + 1, how)


def _expanded_texts(words: Iterable[str], parsed: ParsedScript) -> Iterator[str]:
    """Yield the texts that bash expands implicitly: here-documents, and values that it expands later."""
    yield from (body for body, inert in parsed.documents if not inert and MARK.search(body))
    anything = _EXPANDS.search(parsed.rest)
    for word in words:
        match = ASSIGNMENT.match(word)
        if match and (anything or match[1] in _EXPANDED) and MARK.search(word, match.end()):
            yield word[match.end() :]


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words between command terminators, ignoring all nesting."""
    argv: list[str] = []
    word: list[str] = []
    target = ""  # the redirection operator whose target is the next word
    for match in _TOKEN.finditer(text + "\n"):
        kind, token = match.lastgroup, match[0]
        if kind == "comment":
            continue
        if kind not in {"blank", "end", "redirect"}:
            word.append(dequoted(kind, token))
            continue
        if word and target == "<<<":
            yield ["<<<", "".join(word)]  # a here-string may be the input of a shell
        elif word and not target and not (kind == "redirect" and _DESCRIPTOR.fullmatch("".join(word))):
            argv.append("".join(word))
        target = token.strip() if kind == "redirect" else target if not word and kind == "blank" else ""
        word = []
        if kind == "end":
            yield argv
            argv = []
    if word or argv:  # an unclosed quote has consumed the last line break
        yield [*argv, "".join(word)]


def _strip_grammar(words: list[str]) -> Iterator[Argv]:
    """Yield the command without leading reserved words and assignments; a brace begins another command."""
    argv: list[str] = []
    if words and words[0] == "case":
        return  # the words before the bracket are patterns
    loops = bool(words) and words[0] in {"for", "select"}
    for at, word in enumerate(words):
        if word == "{" or (loops and word == "do") or _names_compound(words, at, argv):
            yield from [tuple(argv)] if argv else []
            argv = []
        elif argv or (word and word not in GRAMMAR and not ASSIGNMENT.match(word)):
            argv.append(word)
    if argv:
        yield tuple(argv)


def _names_compound(words: list[str], at: int, argv: list[str]) -> bool:
    """Whether the word is the name in `function NAME if …` or `coproc NAME while …`."""
    named = not argv and at > 0 and words[at - 1] in {"function", "coproc"}
    return named and at + 1 < len(words) and words[at + 1] in GRAMMAR
