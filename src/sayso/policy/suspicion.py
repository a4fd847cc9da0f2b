"""Every command that a line might run, generously: for finding what is blocked, never for letting anything run.

The strict lexer gives up on most of bash. What is blocked must be found there too: in loops and functions, behind
substitutions, in the text that another shell is given. So this reading errs towards seeing commands, and several
readings of one line are looked at; only what stands in quotes as an operand does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sayso.policy.wrappers import LONGEST_PATTERN, Argv, reads_input, scripts_in, unwrapped

_DEEPEST = 4
_MOST_ALTERNATIVES = 4
_FARTHEST = 2000
_MOST_SUBSTITUTIONS = 300
_MOST_LEADING = 5
_LEAST_BUDGET, _BUDGET = 100_000, 12  # characters that are read of a line, with all readings and scripts in it
_TOKEN = re.compile(
    r"(?P<ansi>\$'(?:[^'\\]|\\.)*'?)"
    r"|(?P<double>\$?\"(?:[^\"\\]|\\.)*\"?)"
    r"|(?P<single>'[^']*'?)"
    r"|(?P<redirect>(?:[0-9]*|\{[A-Za-z_][A-Za-z0-9_]*\})(?:<<<|&>>|&>|>>|>\||>&|<<-|<<|<>|<&|>(?!\()|<(?!\())[ \t]*)"
    r"|(?P<end>\$\(|[<>]\(|[\n;|&()`])"
    r"|(?P<blank>[ \t\r\f\v\xa0]+)"
    r"|(?P<escape>\\.)"
    r"|(?P<comment>(?<![^ \t\n;|&()])\#[^\n]*)"
    r"|(?P<plain>[^\s'\"\\$`|&;()<>\#]+|.)",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$\{[^}'\"\s]{0,200}\}|\$(?:[A-Za-z_][A-Za-z0-9_]*|[@*#?!0-9$-])")
_SUBSTITUTION = re.compile(r"(?<!\\)(?:\$\(|`)")
_QUOTED_SUBSTITUTION = re.compile(r"(?<!\\)(?:\$\([^)\"]{0,200}|`[^`\"]{0,200})\"")
_EMPTY = re.compile(r"\$\([ \t]{0,9}:?[ \t]{0,9}\)|`[ \t]{0,9}:?[ \t]{0,9}`")
_DEFAULT_WORD = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?[-=+]([^}]{0,200})\}")
_DOCUMENT = re.compile(
    r"(?<!<)<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)(?P<end>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)(?![^\s;|&<>)])"
)
_DYNAMIC = re.compile(r"[$`]")  # a command's name that is worked out
_DYNAMIC_NAME = re.compile(r"(?:^|[;&|\n({])[ \t]*(?:\$\(|`)")
_RENAMES = frozenset({"alias", "hash", "set"})
_QUOTED_VALUES = re.compile(r"=(?:'([^']*)'|\"([^\"]*)\")")
_VALUES = re.compile(r"(?:^|[\s;&|(])[A-Za-z_][A-Za-z0-9_]*=['\"]?([^\s'\";&|]+)")
_BRACES = re.compile(r"\{([^{}\s]{1,500})\}")
_MAY_RUN = re.compile(r"[\s$`\ue000\ue001]")  # a word that is a whole script, or has one in it
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
# What letters often stand for: a rule that blocks one spelling means the other too.
_LETTERS = {
    "a": ("--all",),
    "d": ("--delete", "--data", "--detach"),
    "D": ("--delete",),
    "e": ("--eval", "--exec", "--execute"),
    "f": ("--force", "--file", "--filename"),
    "F": ("--form", "--force"),
    "g": ("--global",),
    "i": ("--in-place", "--interactive"),
    "k": ("--insecure",),
    "n": ("--no-verify",),
    "o": ("--output",),
    "r": ("--recursive",),
    "R": ("--recursive",),
    "T": ("--upload-file",),
    "v": ("--volume",),
    "x": ("--extract", "--exec"),
    "X": ("--request",),
    "y": ("--yes", "--assume-yes"),
}
_EITHER_CASE = frozenset("rR")
_GRAMMAR = frozenset({
    "if", "then", "elif", "else", "while", "until", "do", "coproc", "!", "{", "}", "function", "for", "select", "case",
    "in", "time", "-p", "--",
})  # fmt: skip
# In single quotes these do nothing, unless what is quoted is a script.
_MASK = str.maketrans("$`", "\ue000\ue001")
_UNMASK = str.maketrans("\ue000\ue001", "$`")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class TooTangled(ValueError):
    """A line holds so many scripts inside scripts that looking through them all would take too long."""


def commands(text: str) -> Iterator[Argv]:
    """Yield every command that the line might run, with the commands that those run in turn.

    Raises:
        TooTangled: nobody can say what else it might run.
    """
    look = _Look(budget=_LEAST_BUDGET + _BUDGET * len(text))
    for reading in dict.fromkeys(_readings(text)):
        yield from look.commands(reading, 0)


def _readings(text: str) -> Iterator[str]:
    """Yield the line as it stands, and as bash may make it."""
    yield text
    if "&>" in text:
        yield text.replace("&>", "& >")  # as shells other than bash read it
    joined = text.replace("\\\n", "")
    yield joined
    if "$" in joined or "`" in joined:
        yield _VARIABLE.sub(" ", joined)  # `rm${IFS}-rf`
        yield _VARIABLE.sub("", _EMPTY.sub("", joined))  # `r$@m`, `r$(:)m`
        yield _DEFAULT_WORD.sub(r"\1", joined)  # `${x:-rm}`
    if "{" in joined:
        yield _BRACES.sub(lambda match: match[1].replace(",", " "), joined)
        for number in range(_MOST_ALTERNATIVES):
            yield _BRACES.sub(lambda match, at=number: _alternative(match[1], at), joined)
    if "${" in joined and "#" in joined:
        yield joined.replace("#", " ")  # what looks like a comment may be inside an expansion
    if _QUOTED_SUBSTITUTION.search(joined):
        yield joined.replace('"', " ")  # quotes inside a substitution inside quotes
    if _has_open_quote(joined):
        yield joined.replace("'", " ").replace('"', " ")


def _alternative(inside: str, number: int) -> str:
    words = inside.split(",")
    return words[number % len(words)]


def _has_open_quote(text: str) -> bool:
    quoted = ""
    for match in _TOKEN.finditer(text):
        quoted = match[0] if match.lastgroup in {"single", "double", "ansi"} else quoted
    return bool(quoted) and not re.fullmatch(r"""\$?(?:'.*'|".*")""", quoted, re.DOTALL)


def _without_documents(script: str) -> tuple[str, list[str]]:
    """Return the script without its here-documents, and those; if one has no clear end, every line is also a script."""
    if "<<" not in script:
        return script, []
    kept: list[str] = []
    documents: list[str] = []
    lines = iter(script.split("\n"))
    for line in lines:
        kept.append(line)
        for match in _DOCUMENT.finditer(line):
            body: list[str] = []
            for each in lines:
                if (each.lstrip("\t") if match["tabs"] else each) == match["end"]:
                    break
                body.append(each)
            else:
                return script, script.split("\n")
            text = "\n".join(body)
            documents.append(text.translate(_MASK) if match["quote"] else text)  # quoted, nothing in it runs by itself
    return "\n".join(kept), documents


class _Look:
    """One look through a line and the scripts in it, each once, with a limit on how much is read."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._seen: set[tuple[str, bool]] = set()

    def commands(self, script: str, depth: int, *, fed: bool = False) -> Iterator[Argv]:
        """Yield the commands of a script; what is `fed` to a shell may begin at any of its words."""
        if (script, fed) in self._seen:
            return
        self._seen.add((script, fed))
        self._budget -= len(script)
        if self._budget < 0:
            raise TooTangled("it holds too many scripts inside scripts to look through")
        script, documents = _without_documents(script)
        argvs = list(_simple_commands(script))
        inner = [each for argv in argvs for each in unwrapped(argv)]
        for each in inner:
            yield each
            yield from self._inside(scripts_in(each), depth)
        words = [word for argv in argvs for word in argv]
        if fed or any(reads_input(each) for each in inner):
            for argv in argvs:
                yield from (argv[at : at + LONGEST_PATTERN] for at in range(1, len(argv)))
            values = ["".join(each) for each in _QUOTED_VALUES.findall(script)]
            scripts = [*documents, *values, *(word for word in words if _MAY_RUN.search(word))]
            yield from self._inside(scripts, depth, fed=True)
        elif _DYNAMIC_NAME.search(script) or any(_DYNAMIC.search(each[0]) or each[0] in _RENAMES for each in inner):
            yield from ((word,) for word in [*words, *_VALUES.findall(script)])  # any of it may be the name
        else:
            yield from self._inside([part for text in [*words, *documents] for part in _substitutions(text)], depth)

    def _inside(self, scripts: Iterable[str], depth: int, *, fed: bool = False) -> Iterator[Argv]:
        for script in scripts:
            if depth >= _DEEPEST:
                raise TooTangled("it holds scripts inside scripts, too deep to look through")
            yield from self.commands(script.translate(_UNMASK), depth + 1, fed=fed)


def _substitutions(text: str) -> Iterator[str]:
    """Yield what a quoted word, or a here-document, runs."""
    for number, match in enumerate(_SUBSTITUTION.finditer(text)):
        if number >= _MOST_SUBSTITUTIONS:
            raise TooTangled("it holds too many substitutions to look through")
        rest = text[match.end() :]
        end = rest.find("`") if match[0] == "`" else _closing(rest)
        yield rest if end < 0 else rest[:end]


def _closing(text: str) -> int:
    """Return where the bracket closes that was opened before; -1 if it does not, or not within reach."""
    depth = 1
    for match in re.finditer(r"[()]", text[:_FARTHEST]):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return -1


def _simple_commands(text: str) -> Iterator[Argv]:
    """Yield the words between what ends a command."""
    argv: list[str] = []
    word: list[str] = []
    target = ""  # the redirection whose file comes next, which is no argument
    for match in _TOKEN.finditer(text + "\n"):
        kind, token = match.lastgroup, match[0]
        if kind == "comment":
            continue
        if kind not in {"blank", "end", "redirect"}:
            word.append(_dequoted(kind, token))
            continue
        if word and target == "<<<":
            yield ("<<<", "".join(word))  # what a shell may be fed
        elif word and not target:
            argv.append("".join(word))
        target = token.strip() if kind == "redirect" else target if not word and kind == "blank" else ""
        word = []
        if kind == "end":
            yield from _stripped(argv)
            argv = []
    if word or argv:  # a quote that is not closed has taken the last line break
        yield from _stripped([*argv, "".join(word)])


def _dequoted(kind: str | None, token: str) -> str:
    if kind == "single":
        return token[1:].removesuffix("'").translate(_MASK)
    if kind == "double":
        inside = token.removeprefix("$")[1:].removesuffix('"')
        return re.sub(r"\\([$`\"\\])", lambda match: match[1].translate(_MASK), inside)
    if kind == "ansi":
        return _ANSI.sub(_ansi, token[2:].removesuffix("'")).partition("\0")[0]
    return token[1:] if kind == "escape" else token


def _ansi(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal or match[4]:
        number = int(hexadecimal, 16) if hexadecimal else int(match[4], 8)
        return chr(number) if number < 0x110000 else ""  # noqa: PLR2004 - the last character there is
    return _ANSI_LETTERS.get(match[5], match[5])


def _stripped(words: list[str]) -> Iterator[Argv]:
    """Yield the command without the words of the grammar and the assignments before it; braces begin another one."""
    argv: list[str] = []
    if words and words[0] == "case":
        return  # up to the bracket these are patterns
    loops = bool(words) and words[0] in {"for", "select"}
    for word in words:
        if word == "{" or (loops and word == "do"):
            yield from [tuple(argv)] if argv else []
            argv = []
        elif argv or (word and word not in _GRAMMAR and not _ASSIGNMENT.match(word)):
            argv.append(word)
    if argv:
        yield tuple(argv)


def suspects(words: Argv, argv: Argv) -> bool:
    """Whether a command may be what these words block: options anywhere, together or apart, in full or cut short."""
    flags = [word for word in words[1:] if word.startswith("-") and word != "-"]
    names = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    before = next((at for at, word in enumerate(words[1:]) if word in flags), len(names))
    options = [word for word in argv[1:] if word.startswith("-") and word != "-"]
    given = [word for word in argv[1:] if not word.startswith("-") or word == "-"]
    # The first names may be values of options that come before the sub-command.
    starts = range(min(_leading_options(argv), _MOST_LEADING) + 1)
    named = any(
        given[at : at + before] == names[:before] and _in_order(names[before:], given[at + before :]) for at in starts
    )
    if "--force" in flags and words[:2] == ("git", "push"):
        options += ["--force" for word in given if word.startswith("+")]
    return named and all(_has_option(flag, options) for flag in flags)


def _leading_options(argv: Argv) -> int:
    """Count the options before the sub-command, each of which may have a value."""
    at, count = 1, 0
    while at < len(argv) and argv[at].startswith("-"):
        count += 1
        at += 1
        if at + 1 < len(argv) and not argv[at].startswith("-") and argv[at + 1].startswith("-"):
            at += 1
    return count


def _in_order(wanted: Sequence[str], given: Sequence[str]) -> bool:
    rest = iter(given)
    return all(word in rest for word in wanted)


def _has_option(flag: str, options: Sequence[str]) -> bool:
    letters = {letter for option in options if not option.startswith("--") for letter in option[1:]}
    names = {option.partition("=")[0] for option in options if option.startswith("--")}
    if flag.startswith("--"):
        also = (letter for letter, long in _LETTERS.items() if flag in long)
        return any(_is_short_for(name, flag) for name in names) or not letters.isdisjoint(also)
    return flag in options or all(
        letter in letters
        or (letter.swapcase() in letters and letter in _EITHER_CASE)
        or any(_is_short_for(name, each) for name in names for each in _LETTERS.get(letter, ()))
        for letter in flag[1:]
    )


def _is_short_for(option: str, flag: str) -> bool:
    return option == flag or (len(option) > len("--x") and option.startswith("--") and flag.startswith(option))
