"""Scripts of sed and awk: only one that is proved harmless does not ask.

Tests: tests/policy/shell/proof/test_languages.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sayso.policy.shell.wrappers import Argv

# Some versions ignore a delimiter inside `[…]` and others do not, so only brackets without one are parsed.
_BRACKETS = r"\[(?!\^?\])(?:\[:[a-z]+:\]|{inside})+\]"
_IN_SLASHES = _BRACKETS.format(inside=r"[^\]\[\\/\n]")
_IN_DELIMITERS = _BRACKETS.format(inside=r"(?!(?P=d))[^\]\[\\\n]")
_IN_AWK = _BRACKETS.format(inside=r"[^\]\[\\/\n]|\\[A-Za-z.+*-]")
_SED_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|{_IN_SLASHES})*/I?)"
_SED_COMMAND = (
    rf"\s*(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?\s*!?\s*(?:[pdq=nNDPhHgGxl]|"
    rf"s(?P<d>[/|,#:@!])(?:(?!(?P=d))[^\\\n\[]|\\.|{_IN_DELIMITERS})*(?P=d)"
    r"(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpIi0-9]*)?\s*"
)
_SED_LINE = re.compile(_SED_COMMAND)
_SED_OPENS = re.compile(rf"\s*(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?\s*!?\s*{{")
# Only `e`, `w` and `W` run or write, however sed parses the rest; an escape may stand for one of them.
_SED_LEAVES = re.compile(r"[ewW]|\\[xodc]")
_SED_FLAGS = frozenset({"--quiet", "--silent", "--regexp-extended", "--posix", "--debug"})


def sed(args: Argv, own: frozenset[str]) -> str | None:
    """Allow only scripts that neither write nor run anything, with options that change neither."""
    scripts: list[str] = []
    rest, options = list(args), True
    while rest:
        word = rest.pop(0)
        if not options or not word.startswith("-") or word == "-":
            scripts += [] if scripts else [word]  # the first operand, if no option gave a script
        elif word == "--":
            options = False
        elif re.fullmatch(r"-[nErzus]*e|--expression", word) and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word not in own and word not in _SED_FLAGS and not re.fullmatch(r"-[nErzus]+", word):
            return f"{word} is an option of sed that may write or run something"
    # sed joins several scripts, and the end of the first may be the middle of a command.
    harmless = all(map(_is_known_script, scripts)) or not _SED_LEAVES.search("\n".join(scripts))
    return None if harmless else "the script of sed may write or run something"


def _is_known_script(script: str) -> bool:
    """Whether every command of the script is known, and its end is the end of a command."""
    at, blocks = 0, 0
    while True:
        opens = _SED_OPENS.match(script, at)
        if opens:
            at, blocks = opens.end(), blocks + 1
            continue
        match = _SED_LINE.match(script, at)
        at = match.end() if match else at
        while script.startswith("}", at) and blocks:
            at, blocks = len(script) - len(script[at + 1 :].lstrip()), blocks - 1
        if at >= len(script):
            return not blocks
        if script[at] not in ";\n":
            return False
        at += 1


_AWK_EXITS = ("system", "getline", "close", "fflush", "ENVIRON", "ARGV", "SYMTAB")
_AWK_LEAVES = re.compile(r"[|>@\\]|" + "|".join(_AWK_EXITS))
# A letter right behind a number is ambiguous: `1system(…)` calls a function.
_AWK_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\[^\n])*"|[ \t\n]+|[A-Za-z_]\w*|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w)|'
    r"\|\||&&|[-+*%^!=<>~$,;:?(){}\[\]/.]"
)
_AWK_REGEX = re.compile(rf"/(?:[^/\\\n\[]|\\[^\n]|{_IN_AWK})+/")
_BEFORE_REGEX = frozenset({"", "(", ",", "!", "~", "{", "}", ";", "&&", "||", "\n"})
_OPERAND = re.compile(r"\w+|\]")
_RESERVED = frozenset({
    "print", "printf", "return", "in", "delete", "exit", "else", "do", "while", "for", "if", "function", "func", "next",
    "nextfile", "length", "case", "default", "switch", "break", "continue", "BEGIN", "END", "BEGINFILE", "ENDFILE",
})  # fmt: skip
_PAIRS = {")": "(", "}": "{"}
_PRINTS = frozenset({"print", "printf"})


def awk(args: Argv, own: frozenset[str]) -> str | None:
    """Allow only programs without a way out of awk."""
    rest = list(args)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        word = rest.pop(0)
        if word in {"-F", "-v"} and rest:
            rest.pop(0)
        elif word not in own and not word.startswith(("-F", "-v")):
            return f"{word} is an option of awk that may run something"
    program, *files = [word for word in rest if word != "--"] or [""]
    socket = next((word for word in files if "/inet" in word), None)
    if socket:
        return f"{socket} is a network connection for awk"
    way = _AWK_LEAVES.search(program)
    if way is None or _stays_in_awk(program):
        return None
    return f"awk's program uses {way[0]!r}, which can leave awk"


def _stays_in_awk(program: str) -> bool:
    """Whether every apparent way out of awk is in a string or a regular expression, or is a comparison.

    A `>` compares where nothing can be printed: outside of `{}`, and in parentheses without a `print`.
    """
    around = [""]
    for code in _awk_tokens(program):
        if code in _PAIRS.values():
            around.append(code)
        elif code in _PAIRS:
            if around.pop() != _PAIRS[code]:
                return False
        elif code in _AWK_EXITS or (around[-1] == "{" if code == ">" else code in _PRINTS and around[-1] != "{"):
            return False
    return around == [""]


def _awk_tokens(program: str) -> Iterator[str]:
    """Yield the tokens of the program; an ambiguous one counts as a way out of awk."""
    at, before = 0, ""
    while at < len(program):
        match = _AWK_TOKEN.match(program, at)
        if match and match[0] == "/":
            match = _match_slash(program, at, before)
        if match is None:
            yield _AWK_EXITS[0]
            return
        at = match.end()
        if not match[0].isspace():
            before = match[0]
            yield match[0]
        elif "\n" in match[0]:
            before = "\n"


def _match_slash(program: str, at: int, before: str) -> re.Match[str] | None:
    """Return the regular expression or the division that begins here, if the token before decides which."""
    if before in _BEFORE_REGEX:
        return _AWK_REGEX.match(program, at)
    return _AWK_TOKEN.match(program, at) if _OPERAND.fullmatch(before) and before not in _RESERVED else None
