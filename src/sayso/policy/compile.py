"""Policy compiler: validates the data of a policy file and compiles it to entries, shell rules and zones."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from sayso.core.conversation import ConversationLimit
from sayso.core.model import Approval, Rule
from sayso.errors import ConfigurationError, Mistake, PolicyError
from sayso.policy.data_schema import Key, Problem, describe_value, dotted, validate
from sayso.policy.entries import FILE_TOOLS, Entry, parse_entry
from sayso.policy.file_schema import POLICY
from sayso.policy.shell import wrappers
from sayso.policy.shell.judge import ShellRules
from sayso.policy.shell.lexer import NotProvable, lex
from sayso.policy.shell.rules import CODE_LOADING_VARIABLES, Confinement, ShellRule
from sayso.policy.vocabulary import parse_approval, parse_conversation, parse_seconds
from sayso.policy.zones import Resolve, Zone, Zones

Places = Callable[[Key], tuple[int, int] | None]  # line and column of a key, if it comes from a file
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
    compiler = _PolicyCompiler(source, places)
    compiler.problems = list(validate(POLICY, data))
    compiler.raise_if_problems()  # data of the wrong shape cannot be compiled
    compiled = compiler.compile(cast("Mapping[str, Any]", data), base, resolve, tuple(protected))
    compiler.raise_if_problems()
    return compiled


class _PolicyCompiler:
    """Compiler for data of the right shape; collects all semantic errors before it raises."""

    def __init__(self, source: str, places: Places) -> None:
        self._source = source
        self._places = places
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def raise_if_problems(self) -> None:
        if self.problems:
            raise PolicyError([self._mistake(each) for each in self.problems])

    def _mistake(self, problem: Problem) -> Mistake:
        line, column = self._places(problem.key) or (None, None)
        return Mistake(self._source, line, column, problem.message)

    def rule(self, *key: str | int) -> Rule:
        place = self._places(key)
        return Rule(source=self._source, key=dotted(key), line=place[0] if place else None)

    def add_problem(self, message: str, *key: str | int) -> None:
        self.problems.append(Problem(key, f"{dotted(key)} {message}"))

    def compile(
        self, data: Mapping[str, Any], base: str | None, resolve: Resolve, protected: tuple[str, ...]
    ) -> CompiledPolicy:
        zones = self._zones(data["sandbox"] or {}, base, resolve, protected) if "sandbox" in data else None
        shell = self._shell(data, base, zones, resolve)
        if "tools" in data and "tool_configs" in data:
            self.add_problem("and `tools` are two names for one thing; keep one of them", "tool_configs")
        custom = data.get("custom_tools")
        named: dict[str, Any] = dict.fromkeys(custom or ()) | (custom if isinstance(custom, dict) else {})
        judges = {"shell": shell is not None, "path": "sandbox" in data}  # even if its zones have mistakes
        sections = {"tools": data.get("tools"), "tool_configs": data.get("tool_configs"), "custom_tools": named}
        entries = [each for key, given in sections.items() for each in self._parse_entries(key, given or {}, judges)]
        remember = data.get("remember", True)
        longest = cast("Mapping[str, Any]", remember).get("max") if isinstance(remember, Mapping) else None
        return CompiledPolicy(
            default=data["default"],
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
            warnings=tuple(self.warnings),
        )

    def _pre_approved(self, names: Sequence[str]) -> tuple[Entry, ...]:
        return tuple(parse_entry(name, "none", rule=self.rule("pre_approved", at)) for at, name in enumerate(names))

    def _unique(self, entries: Sequence[Entry]) -> Iterable[Entry]:
        seen: dict[str, Entry] = {}
        for entry in entries:
            if entry.pattern in seen:
                self.add_problem(
                    f"is also in {seen[entry.pattern].rule.key}; keep one of them", *entry.rule.key.split(".", 1)
                )
            seen[entry.pattern] = entry
        return seen.values()

    def _parse_entries(self, section: str, given: Mapping[str, Any], judges: Mapping[str, bool]) -> Iterable[Entry]:
        for name, each in given.items():
            try:
                entry = parse_entry(name, {} if each is None else each, rule=self.rule(section, name))
            except ConfigurationError as error:
                self.problems.append(Problem((section, name), str(error)))
                continue
            acts = entry.effect or (name == "shell" and judges["shell"]) or (name in FILE_TOOLS and judges["path"])
            if acts and entry.ask_options.scope == "tool":
                self.add_problem(
                    "cannot be 'tool': a yes to one command or file is no yes to all", section, name, "scope"
                )
            if entry.effect is not None and not judges[entry.effect.kind]:
                missing = "shell" if entry.effect.kind == "shell" else "sandbox"
                self.add_problem(f"is {entry.effect.kind!r}, but the file has no `{missing}`", section, name, "kind")
            yield entry

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
            given += [(("sandbox", "zones", at), zone["name"], zone) for at, zone in enumerate(zones)]
        paths = cast("Mapping[str, Any]", sandbox.get("paths") or {})
        given += [(("sandbox", "paths", name), name, zone) for name, zone in paths.items()]
        found = [self._zone(key, name, zone, base, resolve) for key, name, zone in given]
        if None in found:
            return None
        try:
            return Zones([zone for zone in found if zone is not None], resolve=resolve, protected=protected)
        except ConfigurationError as error:
            self.problems.append(Problem(("sandbox",), str(error)))
            return None

    def _zone(self, key: Key, name: str, given: Mapping[str, Any], base: str | None, resolve: Resolve) -> Zone | None:
        root = self._root(key, given.get("root", name), base, resolve)
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
            self.problems.append(Problem(key, str(error)))
            return None

    def _root(self, key: Key, root: str, base: str | None, resolve: Resolve) -> str | None:
        if not root.startswith("/"):
            if base is None:
                self.add_problem(
                    f"is {root!r}, which is relative to nothing; pass `base=` or use an absolute path", *key
                )
                return None
            root = f"{base}/{root}"
        try:
            found = resolve(root)
            resolve(".", beneath=found)  # it must exist, and be a folder
        except OSError as error:
            self.add_problem(
                f"has the root {root!r}, which cannot be used: {error.strerror or error}; make the folder", *key
            )
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
        if not {"shell", "shell_default", "shell_rules"} & data.keys():
            return None
        if section and {"shell_default", "shell_rules"} & data.keys():
            self.add_problem(
                "and `shell_default`, `shell_rules` are two names for one thing; keep one of them", "shell"
            )
        rules = [
            *self._shell_rules(section.get("rules") or (), "shell", "rules"),
            *self._shell_rules(data.get("shell_rules") or (), "shell_rules"),
        ]
        inert = cast("Sequence[str]", section.get("inert_assignments") or ())
        for at, name in enumerate(inert):
            if any(
                fnmatch.fnmatchcase(name, each) or fnmatch.fnmatchcase(each, name) for each in CODE_LOADING_VARIABLES
            ):
                self.add_problem(f"is {name!r}, which can change what runs", "shell", "inert_assignments", at)
        for at, folder in enumerate(section.get("trusted_dirs") or ()):
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
            trusted=section.get("trusted_dirs") or (),
            inert=inert,
            confinement=self._confinement(section, base, resolve),
            has_own_folder="folder" in section,
        )

    def _confinement(self, section: Mapping[str, Any], base: str | None, resolve: Resolve) -> Confinement | None:
        for name in ("network", "readable"):
            if section.get(name) and not section.get("confine"):
                self.add_problem("is about lines that are confined; set `shell.confine` too", "shell", name)
        folders = enumerate(section.get("readable") or ())
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
        for at, each in enumerate(given):
            key = (*section, at)
            words = _pattern_words(each["pattern"])
            if words is None or not words:
                self.add_problem(
                    f"is {describe_value(each['pattern'])}; "
                    "use plain words, such as 'git status', and quotes round others",
                    *key,
                    "pattern",
                )
                continue
            self._test_rule(each, words, key)
            approval = self._shell_approval(each, key)
            problem = wrappers.pattern_warning(words) if approval == "none" else None
            if problem:
                self.warnings.append(str(self._mistake(Problem(key, f"{dotted(key)}: {problem}"))))
            yield ShellRule(
                words=words,
                approval=approval,
                rule=self.rule(*key),
                note=each.get("note"),
                expires=parse_seconds(each["expires"], dotted((*key, "expires"))) if "expires" in each else None,
                expands=frozenset(each.get("operand_expansion") or ()),
            )

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
        for line in given.get("match") or ():
            if not _matches(words, line):
                self.add_problem(f"does not match {describe_value(line)}, and should", *key)
        for line in given.get("not_match") or ():
            if _matches(words, line):
                self.add_problem(f"matches {describe_value(line)}, and should not", *key)


def _matches(words: wrappers.Argv, line: str) -> bool:
    try:
        parts = lex(line, expand=frozenset({"glob", "tilde"}))
    except NotProvable:
        return False
    return any(part.argv[: len(words)] == words for part in parts)


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
