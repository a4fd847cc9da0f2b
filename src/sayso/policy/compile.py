"""Policy compiler: validates the data of a policy file and compiles it to entries, shell rules and zones."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from sayso.core.conversation import ConversationLimit
from sayso.core.model import Approval, Rule, Verdict
from sayso.errors import ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import Key, Problem, describe_value, dotted, validate
from sayso.policy.entries import FILE_TOOLS, Entry, EntryError, idle_options, parse_entry
from sayso.policy.file_schema import POLICY
from sayso.policy.index import is_glob
from sayso.policy.pruning import prune
from sayso.policy.shell import wrappers
from sayso.policy.shell.judge import ShellRules
from sayso.policy.shell.lexer import NotProvable, lex
from sayso.policy.shell.proof.runners import runs_anything
from sayso.policy.shell.rules import CODE_LOADING_VARIABLES, Confinement, ShellRule
from sayso.policy.vocabulary import APPROVALS, STRICTNESS, parse_approval, parse_conversation, parse_seconds
from sayso.policy.zones import Resolve, Zone, Zones

Places = Callable[[Key], tuple[int, int] | None]  # line and column of a key, if it comes from a file
_SHELL_SECTIONS = frozenset({"shell", "shell_default", "shell_rules"})
_OPERATIONS = ("read", "write", "delete")


class CompiledPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Result of compiling a policy file, from which a `Policy` is built."""

    default: str
    default_rule: Rule
    entries: tuple[Entry, ...]
    pre_approved: tuple[Entry, ...] | None
    custom_tools: tuple[str, ...] | None
    shell: ShellRules | None
    zones: Zones | None
    remember: bool
    remember_max: float | None
    conversation: ConversationLimit | None
    audit: str
    warnings: tuple[str, ...]


def compile_policy(
    data: object,
    *,
    base: str | None,
    resolve: Resolve,
    source: str = "policy",
    places: Places = lambda _: None,
    protected: Iterable[str] = (),
) -> CompiledPolicy:
    """Compile a policy's data; relative folders are relative to `base`, `protected` are real paths of sayso's files.

    Raises:
        PolicyError: lists every mistake, with its place.
    """
    compiler = _PolicyCompiler(source, places, list(validate(POLICY, data)))
    if not isinstance(data, Mapping):
        compiler.raise_if_problems()
    given = cast("Mapping[str, Any]", data)
    # Where the form is wrong, the rest is compiled all the same, only to find what else is wrong.
    whole = prune(given, compiler.form_problems) if compiler.form_problems else given
    compiled = compiler.compile(whole, given.keys(), base, resolve, tuple(protected))
    compiler.raise_if_problems()
    return compiled


class _PolicyCompiler:
    """Compiler for data of the right form; collects all mistakes, of form and of meaning, before it raises."""

    def __init__(self, source: str, places: Places, form_problems: list[Problem]) -> None:
        self._source = source
        self._places = places
        self.form_problems = form_problems
        self._problems = list(form_problems)
        self._warnings: list[str] = []

    def raise_if_problems(self) -> None:
        if self._problems:
            mistakes = [self._mistake(each) for each in self._problems]
            raise PolicyError(sorted(mistakes, key=lambda each: (each.line or 0, each.column or 0)))

    def _mistake(self, problem: Problem) -> Mistake:
        keys = (problem.key[:length] for length in range(len(problem.key), -1, -1))
        line, column = next(filter(None, map(self._places, keys)), (None, None))
        return Mistake(self._source, line, column, problem.message)

    def rule(self, *key: str | int) -> Rule:
        place = self._places(key)
        return Rule(source=self._source, key=dotted(key), line=place[0] if place else None)

    def add_problem(self, message: str, *key: str | int) -> None:
        self.add_sentence(f"{dotted(key)} {message}", *key)

    def add_sentence(self, sentence: str, *key: str | int) -> None:
        if not self._has_form_problem(*key):  # it may be due to that alone
            self._problems.append(Problem(key, sentence))

    def _has_form_problem(self, *key: str | int) -> bool:
        return any(each.key[: len(key)] == key for each in self.form_problems)

    def add_warning(self, sentence: str, *key: str | int) -> None:
        self._warnings.append(str(self._mistake(Problem(key, sentence))))

    def compile(
        self,
        data: Mapping[str, Any],
        sections: Collection[str],
        base: str | None,
        resolve: Resolve,
        protected: tuple[str, ...],
    ) -> CompiledPolicy:
        zones = self._zones(data["sandbox"] or {}, base, resolve, protected) if "sandbox" in data else None
        shell = self._shell(data, base, zones, resolve)
        if "tools" in data and "tool_configs" in data:
            self.add_problem("and `tools` are two names for one thing; keep one of them", "tool_configs")
        custom: list[str] | dict[str, Any] | None = data.get("custom_tools")
        listed: dict[str, Any] = dict.fromkeys(name for _, name in _items(custom)) if isinstance(custom, list) else {}
        named = custom if isinstance(custom, dict) else listed
        # By what the file has, even if that has mistakes.
        judges = {"shell": bool(_SHELL_SECTIONS & set(sections)), "path": "sandbox" in sections}
        rules = {"tools": data.get("tools"), "tool_configs": data.get("tool_configs"), "custom_tools": named}
        default = data.get("default")
        entries = [
            each for key, given in rules.items() for each in self._parse_entries(key, given or {}, judges, default)
        ]
        self._warn_of_blocked(entries)
        remember = data.get("remember", True)
        longest = cast("Mapping[str, Any]", remember).get("max") if isinstance(remember, Mapping) else None
        return CompiledPolicy(
            default=data.get("default", "required"),  # a file without one has a mistake
            default_rule=self.rule("default"),
            entries=tuple(self._unique(entries)),
            pre_approved=self._pre_approved(data["pre_approved"]) if "pre_approved" in data else None,
            custom_tools=None if custom is None else tuple(named),
            shell=shell,
            zones=zones,
            remember=remember is not False,
            remember_max=None if longest is None else parse_seconds(longest, "remember.max"),
            conversation=parse_conversation(data["conversation"], "conversation") if "conversation" in data else None,
            audit=data.get("audit", "queued"),
            warnings=tuple(self._warnings),
        )

    def _pre_approved(self, names: Sequence[str]) -> tuple[Entry, ...]:
        found = [self._parse_entry(name, "none", "pre_approved", at) for at, name in _items(names)]
        return tuple(entry for entry in found if entry is not None)

    def _unique(self, entries: Sequence[Entry]) -> Iterable[Entry]:
        seen: dict[str, Entry] = {}
        for entry in entries:
            if entry.pattern in seen:
                sentence = f"{entry.rule.key} is also in {seen[entry.pattern].rule.key}; keep one of them"
                self._problems.append(Problem(tuple(entry.rule.key.split(".", 1)), sentence))
            seen[entry.pattern] = entry
        return seen.values()

    def _parse_entries(
        self, section: str, given: Mapping[str, Any], judges: Mapping[str, bool], default: str | None
    ) -> Iterable[Entry]:
        for name, each in given.items():
            entry = self._parse_entry(name, {} if each is None else each, section, name)
            if entry is None:
                continue
            self._warn_of_idle_parts(entry, section, default)
            acts = entry.effect or (name == "shell" and judges["shell"]) or (name in FILE_TOOLS and judges["path"])
            if acts and entry.ask_options.scope == "tool":
                self.add_problem(
                    "cannot be 'tool': a yes to one command or file is no yes to all", section, name, "scope"
                )
            if entry.effect is not None and not judges[entry.effect.kind]:
                missing = "shell" if entry.effect.kind == "shell" else "sandbox"
                self.add_problem(f"is {entry.effect.kind!r}, but the file has no `{missing}`", section, name, "kind")
            yield entry

    def _parse_entry(self, pattern: str, given: Any, *key: str | int) -> Entry | None:  # noqa: ANN401 - as it is parsed
        try:
            return parse_entry(pattern, given, rule=self.rule(*key))
        except ConfigurationError as error:
            found = error.problems if isinstance(error, EntryError) else (("", str(error)),)
            for field, sentence in found:
                self.add_sentence(sentence, *key, field)
            return None

    def _warn_of_idle_parts(self, entry: Entry, section: str, default: str | None) -> None:
        says = _says(entry)
        for option in idle_options(entry):
            sentence = f"{entry.rule.key} is {says!r}, so nobody is asked and `{option}` means nothing"
            self.add_warning(sentence, section, entry.pattern, option)
        is_for_all = not entry.pattern.strip("*") and entry.when is None and entry.effect is None
        if is_for_all and says is not None and default is not None and APPROVALS[default] != says:
            sentence = (
                f"{entry.rule.key} is about every tool, so `default: {default}` never decides; say {says!r} there"
            )
            self.add_warning(sentence, section, entry.pattern)

    def _warn_of_blocked(self, entries: Sequence[Entry]) -> None:
        """Warn of entries that never decide, because a glob blocks whatever they match."""
        globs = [each for each in entries if is_glob(each.pattern) and each.when is None and _says(each) == "blocked"]
        for entry in entries if globs else ():
            over = (each for each in globs if fnmatch.fnmatchcase(entry.pattern, each.pattern) and each is not entry)
            other = next(over, None)
            if other is not None and _says(entry) not in {None, "blocked"}:
                sentence = f"{entry.rule.key} is {_says(entry)!r} and never decides: {other.rule.key} blocks it"
                self.add_warning(sentence, *entry.rule.key.split(".", 1))

    # Zones.

    def _zones(
        self, sandbox: Mapping[str, Any], base: str | None, resolve: Resolve, protected: tuple[str, ...]
    ) -> Zones | None:
        given: list[tuple[Key, str, Mapping[str, Any]]] = []
        zones: Any = sandbox.get("zones") or {}
        if isinstance(zones, Mapping):
            by_name = cast("Mapping[str, Any]", zones)
            given += [(("sandbox", "zones", name), name, zone) for name, zone in by_name.items()]
        else:
            given += [(("sandbox", "zones", at), zone["name"], zone) for at, zone in _items(zones) if "name" in zone]
        paths = cast("Mapping[str, Any]", sandbox.get("paths") or {})
        given += [(("sandbox", "paths", name), name, zone) for name, zone in paths.items()]
        found = [self._zone(key, name, zone, base, resolve) for key, name, zone in given]
        if None in found:
            return None
        try:
            return Zones([zone for zone in found if zone is not None], resolve=resolve, protected=protected)
        except ConfigurationError as error:
            self.add_sentence(str(error), "sandbox")
            return None

    def _zone(self, key: Key, name: str, given: Mapping[str, Any], base: str | None, resolve: Resolve) -> Zone | None:
        broken = self._has_form_problem(*key, "root")
        root = None if broken else self._root(key, given.get("root", name), base, resolve)
        approvals = self._approvals(key, given)
        if root is None:
            return None
        try:
            return Zone(
                name=name,
                root=root,
                mode=given.get("mode", "rw"),
                trash=given.get("trash", True),
                rule=self.rule(*key),
                **approvals,
            )
        except ConfigurationError as error:
            self.add_sentence(str(error), *key)
            return None

    def _root(self, key: Key, root: str, base: str | None, resolve: Resolve) -> str | None:
        if not root.startswith("/"):
            if base is None:
                problem = f"is {root!r}, which is relative to nothing; pass `base=` or use an absolute path"
                self.add_sentence(f"{dotted(key)} {problem}", *key, "root")
                return None
            root = f"{base}/{root}"
        try:
            found = resolve(root)
            resolve(".", beneath=found)  # it must exist, and be a folder
        except OSError as error:
            problem = f"has the root {root!r}, which cannot be used: {error.strerror or error}; make the folder"
            self.add_sentence(f"{dotted(key)} {problem}", *key, "root")
            return None
        return found

    def _approvals(self, key: Key, given: Mapping[str, Any]) -> dict[str, Approval]:
        said: Any = given.get("approval") or {}
        words: dict[str, Any] = dict.fromkeys(_OPERATIONS, said) if isinstance(said, str) else dict(said)
        found: dict[str, Approval] = {
            name: parse_approval(each, dotted((*key, "approval", name))) for name, each in words.items()
        }
        for name in _OPERATIONS:
            other = given.get(f"{name}_approval")
            if other is None:
                continue
            if name in found:
                self.add_problem(f"says the same thing twice; keep `approval` or `{name}_approval`", *key)
            asks = "required" if other is True else "none" if other is False else other
            found[name] = parse_approval(asks, dotted((*key, f"{name}_approval")))
        return found

    # Shell.

    def _shell(
        self, data: Mapping[str, Any], base: str | None, zones: Zones | None, resolve: Resolve
    ) -> ShellRules | None:
        section = cast("Mapping[str, Any]", data.get("shell") or {})
        if not _SHELL_SECTIONS & data.keys():
            return None
        if section and {"shell_default", "shell_rules"} & data.keys():
            self.add_problem(
                "and `shell_default`, `shell_rules` are two names for one thing; keep one of them", "shell"
            )
        rules = [
            *self._shell_rules(section.get("rules") or (), "shell", "rules"),
            *self._shell_rules(data.get("shell_rules") or (), "shell_rules"),
        ]
        self._warn_of_overruled(rules)
        inert = list(_items(section.get("inert_assignments")))
        for at, name in inert:
            if any(
                fnmatch.fnmatchcase(name, each) or fnmatch.fnmatchcase(each, name) for each in CODE_LOADING_VARIABLES
            ):
                self.add_problem(f"is {name!r}, which can change what runs", "shell", "inert_assignments", at)
        trusted = list(_items(section.get("trusted_dirs")))
        for at, folder in trusted:
            if not folder.startswith("/"):
                self.add_problem(f"is {folder!r}; use an absolute path", "shell", "trusted_dirs", at)
        default, key = self._shell_default(data, section, rules)
        folder = self._root(("shell", "folder"), section["folder"], base, resolve) if "folder" in section else base
        return ShellRules(
            rules,
            default=default,
            rule=self.rule(*key),
            zones=zones,
            folder=folder or "/",
            trusted=[folder for _, folder in trusted],
            inert=[name for _, name in inert],
            confinement=self._confinement(section, base, resolve),
            has_own_folder="folder" in section,
        )

    def _warn_of_overruled(self, rules: Sequence[ShellRule]) -> None:
        """Warn of rules that never decide, because a stricter one matches whatever they match."""
        for rule in rules:
            over = [each for each in rules if STRICTNESS[each.approval] > STRICTNESS[rule.approval]]
            other = next((each for each in over if rule.words[: len(each.words)] == each.words), None)
            if other is not None:
                which = f"{other.rule.key} (`{' '.join(other.words)}`) is {other.approval!r}"
                sentence = f"{rule.rule.key} (`{' '.join(rule.words)}`) is {rule.approval!r} and never decides: {which}"
                section, _, at = rule.rule.key.rstrip("]").partition("[")
                self.add_warning(sentence, *section.split("."), int(at))

    def _confinement(self, section: Mapping[str, Any], base: str | None, resolve: Resolve) -> Confinement | None:
        for name in ("network", "readable"):
            if section.get(name) and not section.get("confine") and not self._has_form_problem("shell", "confine"):
                self.add_problem("is about lines that are confined; set `shell.confine` too", "shell", name)
        folders = _items(section.get("readable"))
        found = [self._root(("shell", "readable", at), folder, base, resolve) for at, folder in folders]
        readable = tuple(each for each in found if each is not None)
        if not section.get("confine"):
            return None
        return Confinement(network=section.get("network", False), readable=readable)

    def _shell_default(
        self, data: Mapping[str, Any], section: Mapping[str, Any], rules: Sequence[ShellRule]
    ) -> tuple[Any, Key]:
        said, key = (section["default"], ("shell", "default")) if "default" in section else (None, ("shell",))
        if "shell_default" in data:
            said, key = data["shell_default"], ("shell_default",)
        if isinstance(said, Mapping):
            said = self._approval_from_flags(cast("Mapping[str, Any]", said))
            if said == "none":
                self.add_problem(
                    "lets every command run; only rules can do that, so use `approval_required: true`", *key
                )
        if said is None:
            said = "blocked" if rules else "required"  # a list of rules is an allow-list
        return parse_approval(said, dotted(key)), key

    def _shell_rules(self, given: Sequence[Mapping[str, Any]], *section: str) -> Iterable[ShellRule]:
        for at, each in _items(given):
            key = (*section, at)
            words = _pattern_words(each["pattern"]) if "pattern" in each else None
            if not words:
                if "pattern" in each:
                    self.add_problem(_pattern_problem(each["pattern"]), *key, "pattern")
                continue
            self._test_rule(each, words, key)
            approval = self._shell_approval(each, key)
            problem = _pattern_warning(words) if approval == "none" else None
            if problem:
                self.add_warning(f"{dotted(key)}: {problem}", *key)
            if "expires" in each and approval in {"none", "blocked"}:
                self.add_warning(f"{dotted(key)} is {approval!r}, so nobody is asked and `expires` means nothing", *key)
            yield ShellRule(
                words=words,
                approval=approval,
                rule=self.rule(*key),
                note=each.get("note"),
                expires=parse_seconds(each["expires"], dotted((*key, "expires"))) if "expires" in each else None,
                expands=frozenset(each.get("operand_expansion") or ()),
                options=self._options(each, approval, key),
                every_option=each.get("options") == "any",
            )

    def _options(self, each: Mapping[str, Any], approval: Approval, key: Key) -> frozenset[str]:
        given = each.get("options")
        if given is not None and approval != "none":
            self.add_problem(f"means nothing, because the rule is {approval!r}; leave it out", *key, "options")
        named = {} if isinstance(given, str) else dict(_items(given))
        for at, option in named.items():
            if not re.fullmatch(r"--?[^\s=-][^\s=]*", option):
                sentence = f"is {describe_value(option)}; name an option without its value, such as --since or -n"
                self.add_problem(sentence, *key, "options", at)
        return frozenset(named.values())

    def _shell_approval(self, each: Mapping[str, Any], key: Key) -> Approval:
        by_flags = "allowed" in each or "approval_required" in each
        if by_flags == ("approval" in each):
            self.add_problem("has to say `approval`, or `allowed` and `approval_required`", *key)
        if "approval" not in each:
            return self._approval_from_flags(each)
        return parse_approval(each["approval"], dotted((*key, "approval")))

    def _approval_from_flags(self, said: Mapping[str, Any]) -> Approval:
        if said.get("allowed", True) is False:
            return "blocked"
        return "none" if said.get("approval_required") is False else "required"

    def _test_rule(self, given: Mapping[str, Any], words: wrappers.Argv, key: Key) -> None:
        for at, line in _items(given.get("match")):
            if not _matches(words, line):
                self.add_sentence(f"{dotted(key)} does not match {describe_value(line)}, and should", *key, "match", at)
        for at, line in _items(given.get("not_match")):
            if _matches(words, line):
                sentence = f"{dotted(key)} matches {describe_value(line)}, and should not"
                self.add_sentence(sentence, *key, "not_match", at)


def _says(entry: Entry) -> Approval | None:
    return entry.says.approval if isinstance(entry.says, Verdict) else None


def _pattern_warning(words: wrappers.Argv) -> str | None:
    runs = f"`{' '.join(words)}` runs any program; name what it may run" if runs_anything(words) else None
    return wrappers.pattern_warning(words) or runs


def _matches(words: wrappers.Argv, line: str) -> bool:
    try:
        parts = lex(line, expand=frozenset({"glob", "tilde"}))
    except NotProvable:
        return False
    return any(part.argv[: len(words)] == words for part in parts)


def _items(given: Sequence[Any] | None) -> Iterator[tuple[int, Any]]:
    """Yield the items of a list with their places, but for those that were removed because their form is wrong."""
    return ((at, item) for at, item in enumerate(given or ()) if item is not None)


def _pattern_problem(pattern: str) -> str:
    if "*" in pattern:
        return f"is {describe_value(pattern)}; leave the * out: a pattern matches commands that begin with its words"
    return f"is {describe_value(pattern)}; use plain words, such as 'git status', and quotes round others"


def _pattern_words(pattern: str) -> tuple[str, ...] | None:
    """Return the words of a pattern; None if it is not one simple command of plain or quoted words."""
    try:
        parts = lex(pattern)
    except NotProvable:
        return None
    if len(parts) != 1 or parts[0].text != pattern.strip() or parts[0].redirects or parts[0].assignments:
        return None
    words = parts[0].argv
    remark = re.search(r"(?:^|\s)#", pattern)  # a comment for bash, which the author of the rule may not intend
    return words if len(words) <= wrappers.LONGEST_PATTERN and not remark else None
