"""Option matching: whether a command may match a stricter rule, in any spelling and order of its options.

A rule that allows is matched word by word; a rule that asks or blocks is looked for generously. Options may stand
anywhere, and the word behind one may be its value.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from sayso.policy.shell import spellings
from sayso.policy.shell.inner_commands import own_length
from sayso.policy.shell.proof.catalogue import find_command
from sayso.policy.shell.proof.profile import CommandProfile
from sayso.policy.shell.wrappers import INTERPRETERS, SHELLS, WRAPPERS, Argv, word_set

_BUNDLE = re.compile(r"[A-Za-z0-9]+")
_NAME = re.compile(r"^[^=:]+")
_LETTERS = re.compile(r"-[a-z]+")
_PUSHES_ALL = frozenset({"--all", "--mirror", "--branches"})
_PLACE = re.compile(r"[/:]")
_LONGEST_BUNDLE = 5  # letters: a longer word behind one dash is a name
_SHORTEST = 3  # `--o` may stand for `--output`
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_HAS_KINDS = frozenset({"kubectl", "oc"})
_HAS_HOSTS = frozenset({"ssh", "mosh", "sftp"})
# Programs that take other words for a name.
_OTHER_NAMES = (
    _HAS_KINDS
    | _HAS_HOSTS
    | spellings.SHORT_NAMES
    | spellings.SHORT_PARTS
    | spellings.CASELESS_NAMES
    | set(spellings.STAGES)
)
# Programs whose first operand is another program, a script or a host.
_KEEPS_ORDER = _HAS_HOSTS | frozenset(WRAPPERS) | SHELLS | (INTERPRETERS - word_set("sqlite3 mysql psql"))
_FIRST_COUNTS = word_set("run run-script rum urn task start exec x dlx")  # behind their first operand stand its own
_BOOLEANS = frozenset({"true", "false"})  # they may stand behind an option that takes no value


class LooseRule(msgspec.Struct, frozen=True):
    """Words of a rule in the form in which they are looked for."""

    program: str
    forms: tuple[tuple[Argv, Argv], ...]  # in every spelling of the sub-command: its names, and the options
    others: Argv  # the words behind the first option: values or operands
    letters: spellings.Letters
    valued: str  # the letters whose value may follow in the same word
    command: CommandProfile | None = None  # the sub-command, where its operands may stand in any order
    operands: Argv = ()
    same: dict[str, Argv] = {}  # of each option, its other long names


def loosen(words: Argv) -> LooseRule:
    """Return the loose form of a rule's words."""
    program, *rest = _kinds_apart(spellings.canonical_name(words))
    first = next((at for at, word in enumerate(rest) if _is_option(word)), len(rest))
    path, behind = tuple(rest[:first]), rest[first:]
    options = tuple(filter(_is_option, behind))
    known = _enter(program, path)
    depth = len(path) if known is None or not _is_unordered(program, path, known[0]) else known[1]
    command = (program, *path[:1])
    return LooseRule(
        program=program,
        forms=tuple((names, (*extra, *options)) for names, extra in _spellings_of(program, path[:depth])),
        others=tuple(word for word in behind if not _is_option(word)),
        letters={} if program in spellings.ONE_DASH else _letters_of(command, known[0] if known else None),
        valued=spellings.VALUED.get(" ".join(command), ""),
        command=known[0] if known else None,
        operands=path[depth:],
        same=_other_names(known[0], options) if known else {},
    )


def _enter(program: str, path: Argv) -> tuple[CommandProfile, int] | None:
    """Return the sub-command that these words name, and how many of them do; None if no profile knows the program."""
    command = find_command(program)
    if command is None:
        return None
    for at, word in enumerate(path):
        if word not in command.commands or (program, path[:at]) == ("git", ("push",)):  # its remotes are operands
            return command, at
        command = command.commands[word]
    return command, len(path)


def _is_unordered(program: str, path: Argv, command: CommandProfile) -> bool:
    """Whether the words behind the sub-command are operands, of which each counts wherever it stands."""
    if program in _KEEPS_ORDER:
        return False
    runs = command.runs is not None or command.ordered or not _FIRST_COUNTS.isdisjoint(path)
    return not runs and (not command.commands or command.starts)


def _letters_of(command: Argv, profile: CommandProfile | None) -> spellings.Letters:
    """Return the long forms of the letters: those of the tables, and what a profile adds."""
    found = dict(spellings.letters_of(command))
    for name, option in profile.options.items() if profile is not None else ():
        longs = [(each,) for each in option.names if each.startswith("--")]
        if len(name) == 2 and longs:  # noqa: PLR2004 - a letter
            found[name[1]] = [*found.get(name[1], ()), *longs]
    return found


def _other_names(command: CommandProfile, options: Argv) -> dict[str, Argv]:
    """Return for each option its other long names, each with the value that the rule says."""
    parts = {option: option.partition("=") for option in options if option.startswith("--")}
    known = {option: (command.option(name), name, equals + value) for option, (name, equals, value) in parts.items()}
    return {
        option: tuple(f"{each}{rest}" for each in found.names if each.startswith("--") and each != name)
        for option, (found, name, rest) in known.items()
        if found is not None
    }


def may_match(rule: LooseRule, argv: Argv) -> bool:
    """Whether a command may match the rule; its program has the canonical name."""
    words = _kinds_apart(argv)[1:]
    named = [options for names, options in rule.forms if _begins_with(rule.program, names, words)]
    if not named or not all(_has_operand(rule, each, words) for each in rule.operands):
        return False
    if not any(named):
        return _has_others(rule, words)
    own = words[: own_length(argv, rule.forms[0][0]) - 1]  # the rest are words of what it runs
    return any(all(_has_option(rule, each, own) for each in options) for options in named) and _has_others(rule, words)


def _has_others(rule: LooseRule, words: Argv) -> bool:
    return all(any(_holds(other, word) for word in words) for other in rule.others)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _holds(other: str, word: str) -> bool:
    """Whether the word is this one, or an option with it as value."""
    if not _is_option(word):
        return is_same_word(other, word)
    value = word.partition("=")[2]
    return (value != "" and is_same_word(other, value)) or (
        not word.startswith("--") and word[2:].lower().endswith(other.lower())
    )


def is_same_word(name: str, word: str) -> bool:
    """Whether two words may mean the same, as values that ignore case (`-X delete`), or as paths (`./x`, `a/../x`)."""
    if name.lower() == word.lower():
        return True
    if "/" not in word and "/" not in name:
        return False
    if "://" in word:
        return word.rstrip("/") == name.rstrip("/")
    wanted, path = _plain_path(name), _plain_path(word)
    if wanted[:1] != "/" and path[:1] == "/":
        return path.endswith(f"/{wanted}")
    return path == wanted or (path.startswith("../") and wanted.endswith(f"/{path.replace('../', '')}"))


def _plain_path(path: str) -> str:
    """Return a path in its shortest form; POSIX lets two slashes at its beginning stand, and Linux reads one."""
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)


def _has_operand(rule: LooseRule, name: str, words: Argv) -> bool:
    """Whether one of the words is this operand; behind a sub-command, a value of an option is one only if a place."""
    may_be_value = not rule.forms[0][0] or _PLACE.search(name) is not None
    pushes = rule.program == "git" and rule.forms[0][0][:1] == ("push",)
    for before, word in pairwise(("", *words)):
        option = rule.command.option(before) if rule.command is not None and _is_option(before) else None
        is_value = not may_be_value and option is not None and option.arity == "="
        if not is_value and (_holds(name, word) or _is_name(rule.program, word, name)):
            return True
        if pushes and (_branch_of(word) == _branch_of(name) or word in _PUSHES_ALL):
            return True
    return False


def _branch_of(word: str) -> str:
    """Return the branch that a refspec writes: `+HEAD:refs/heads/main`."""
    return word.removeprefix("+").rpartition(":")[2].removeprefix("refs/").removeprefix("heads/")


# Sub-commands.


def _spellings_of(program: str, path: Argv) -> Iterator[tuple[Argv, Argv]]:
    """Yield every spelling of a sub-command: its names and its options."""
    yield path, ()
    for group in spellings.SYNONYMS.get(program, ()):
        known = next((each for each in group if path and path[: len(each)] == each), None)
        for each in group if known else ():
            if known and each != known:
                names = tuple(word for word in each if not _is_option(word))
                yield (*names, *path[len(known) :]), tuple(filter(_is_option, each))


def _begins_with(program: str, names: Argv, words: Argv) -> bool:
    """Whether the words may begin with these names; options are skipped, and words that may be the value of one."""
    if not names:
        return True
    exact = program not in _OTHER_NAMES and not any("/" in word for word in (*names, *words))
    if exact and any(name not in words for name in names):
        return False  # the usual case, at no cost
    profile = find_command(program)
    objects = program in _HAS_KINDS and _takes_several(profile, names[0])
    reached = [0]  # the numbers of names that may have been found so far
    before = ""  # the option right before the word
    for word in words:
        if _is_option(word):
            before = "" if "=" in word or word == "--" else word
            continue
        following: list[int] = []
        for at in reached:
            takes_value = _takes_value(profile, before) if at == 0 else None  # known only before the first name
            if not takes_value and _is_name(program, word, names[at]):
                following.append(at + 1)
            if (at and objects) or _may_be_skipped(program, word, before, takes_value):
                following.append(at)
        if len(names) in following:
            return True
        if not following:
            return False
        reached, before = list(dict.fromkeys(following)), ""
    return False


def _takes_several(profile: CommandProfile | None, command: str) -> bool:
    """Whether the operands of this sub-command are names of any number of objects, and not a sub-command."""
    found = profile.commands.get(command) if profile is not None else None
    return found is None or not found.commands


def _takes_value(profile: CommandProfile | None, option: str) -> bool | None:
    """Whether an option before the first name takes a value; None if no profile knows."""
    found = profile.option(option) if profile is not None and option else None
    return None if found is None or found.arity in {"?", "#"} else found.arity == "="


def _is_name(program: str, word: str, name: str) -> bool:
    if word == name or program not in _OTHER_NAMES:
        return word == name or ("/" in word and is_same_word(name, word))
    if program in _HAS_HOSTS:
        return _host_of(word) == _host_of(name)
    if program in _HAS_KINDS:  # `kubectl delete deploy/x`, `kubectl delete po,svc x`
        return any(_kind_of(each) == _kind_of(name) for each in word.lower().split(","))
    if program in spellings.CASELESS_NAMES:
        return word.lower() == name.lower()
    if program in spellings.SHORT_PARTS:
        given, wanted = word.split(":"), name.split(":")
        return len(given) == len(wanted) and all(map(str.startswith, wanted, given)) and all(given)
    if program in spellings.STAGES:
        return word == name
    return bool(word) and name.startswith(word) and word not in spellings.NAMES.get(program, ())


def _kinds_apart(argv: Argv) -> Argv:
    """Return the command with `pod x` for `pod/x`, where that is what it means."""
    if argv[0] not in _HAS_KINDS or not any("/" in word for word in argv):
        return argv
    whole = (_is_option(word) or "://" in word for word in argv)
    return tuple(each for word, is_one in zip(argv, whole, strict=True) for each in word.split("/", 0 if is_one else 1))


def _kind_of(word: str) -> str:
    """Return the usual name of a kind, without its version and group: `secrets.v1.` is `secret`."""
    kind = word.partition(".")[0]
    return spellings.KINDS.get(kind, kind)


def _host_of(word: str) -> str:
    """Return the host of `host`, `me@host` or `ssh://me@host:22`."""
    return re.sub(r"^(?:ssh://)?(?:.*@)?", "", word).partition(":")[0].rstrip("/.").lower()


def _may_be_skipped(program: str, word: str, before: str, takes_value: bool | None) -> bool:  # noqa: FBT001
    if program in spellings.GOALS or word == "-" or word.startswith("+"):
        return True
    if word in spellings.STAGES.get(program, ()):
        return True
    if not before:
        return program in WRAPPERS and bool(_ASSIGNMENT.match(word))
    return takes_value is not False or word in _BOOLEANS


# Options.


def _has_option(rule: LooseRule, option: str, words: Argv) -> bool:
    """Whether the words may hold an option of the rule, in another spelling."""
    if option in words or option == "--":
        return option in words
    if any(_has_option(rule, each, words) for each in rule.same.get(option, ())):
        return True
    name, equals, value = option.partition("=")
    if equals:
        return _has_value(rule, name, value, words)
    given = _options_in(rule, words)
    if option.startswith("--"):
        return _has_long(rule, option, given)
    if any(first + second == option for first, second in pairwise(words)):  # a value in the next word
        return True
    if _is_bundle(rule.program, option) and _has_letters(rule, option[1:], given):
        return True
    value = option[2:]  # in the same word, unless it can only be letters: `rm -r f` is not `rm -rf`
    attached = value and rule.program not in spellings.ONE_DASH and not _LETTERS.fullmatch(option)
    return bool(attached and _has_value(rule, option[:2], value, words)) or _has_long(rule, f"-{option}", given)


def _has_value(rule: LooseRule, name: str, value: str, words: Argv) -> bool:
    return any(
        (is_same_word(value, following) or _holds(value, word)) and _has_option(rule, name, (word.partition("=")[0],))
        for word, following in pairwise((*words, ""))
        if _is_option(word)
    )


def _options_in(rule: LooseRule, words: Argv) -> list[str]:
    found = list(dict.fromkeys(filter(_is_option, words)))
    for option, implied in spellings.IMPLIED.get(rule.program, ()):
        if any(_gives(rule.program, option, word) for word in found):
            found += implied
    if rule.program == "tar" and words and not _is_option(words[0]):
        found.append(f"-{words[0]}")  # its first word may be a bundle without the dash
    if rule.program == "git" and rule.forms[0][0][:1] == ("push",):
        found += ["--force" for word in words if word.startswith("+")]
        found += ["--delete" for word in words if word.startswith(":") and word != ":"]
    return found


def _gives(program: str, option: str, word: str) -> bool:
    """Whether the word is this option, perhaps with a value, or a bundle with this letter."""
    if option.startswith("--"):
        return word == option or word.startswith(f"{option}=")
    return not word.startswith("--") and option[1] in word[1:] and _is_bundle(program, word)


def _is_bundle(program: str, option: str) -> bool:
    """Whether a word behind one dash is a bundle of letters rather than a name."""
    letters = option[1:]
    if len(letters) == 1:
        return True
    plain = bool(_BUNDLE.fullmatch(letters)) and len(letters) <= _LONGEST_BUNDLE
    return plain and program not in spellings.ONE_DASH and len(set(letters)) in {1, len(letters)}


def _has_long(rule: LooseRule, option: str, given: Sequence[str]) -> bool:
    if _has_name(rule.program, option, given):
        return True
    letters = _letters_in(rule, given)
    return any(option in names for letter in letters for names in rule.letters.get(letter, ()))


def _has_name(program: str, option: str, given: Sequence[str]) -> bool:
    wanted = spellings.ONE_OPTION.get(option, option)
    names = {spellings.ONE_OPTION.get(name, name) for word in given for name in (word, *_NAME.findall(word))}
    return option[1:] in names or any(_is_short_for(program, name, wanted) for name in names)


def _is_short_for(program: str, name: str, option: str) -> bool:
    if program in spellings.CASELESS:
        return option.lstrip("-").lower().startswith(name.lstrip("-").lower())
    if name == option or program in spellings.EXACT_OPTIONS:
        return name == option
    return len(name) >= _SHORTEST and name.startswith("--") and option.startswith(name)


def _has_letters(rule: LooseRule, wanted: str, given: Sequence[str]) -> bool:
    letters = _letters_in(rule, given)
    if rule.program in spellings.EITHER_CASE:
        letters |= {letter.swapcase() for letter in letters & {"r", "R"}}
    return all(
        letter in letters or any(_stand_for(rule, names, given) for names in rule.letters.get(letter, ()))
        for letter in wanted
    )


def _stand_for(rule: LooseRule, names: Sequence[str], given: Sequence[str]) -> bool:
    """Whether long options stand for a letter: one by its name, several in any spelling (`git branch -d -f`)."""
    if len(names) == 1:
        return _has_name(rule.program, names[0], given)
    return all(_has_long(rule, name, given) for name in names)


def _letters_in(rule: LooseRule, given: Sequence[str]) -> set[str]:
    """Return the letters of the bundles; in programs whose options are words, only those that stand alone."""
    found: set[str] = set()
    for word in given:
        match = _BUNDLE.match(word, 1)
        if match is None or word.startswith("--") or (match[0].isdigit() and len(match[0]) > 1):
            continue
        letters = match[0]
        if rule.program in spellings.ONE_DASH:
            letters = letters[:1] if len(word) == 2 or rule.program in spellings.ATTACHES else ""  # noqa: PLR2004
        end = next((at + 1 for at, letter in enumerate(letters) if letter in rule.valued), len(letters))
        found.update(letters[:end])
    return found
