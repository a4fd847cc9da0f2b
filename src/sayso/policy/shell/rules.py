"""What an owner says about shell lines: rules for commands, and how far lines are shut in."""

from __future__ import annotations

import msgspec

from sayso.core.model import Approval, Rule
from sayso.policy.shell.wrappers import Argv

# Variables that change what runs; no list of harmless ones may name them.
CODE_LOADING_VARIABLES = (
    "PATH", "LD_*", "DYLD_*", "GIT_*", "*PAGER", "*EDITOR", "BASH_*", "ENV", "IFS", "PS4", "PYTHON*", "NODE_*", "*OPTS",
    "PERL5*", "RUBY*", "*_OPTIONS", "PROMPT_COMMAND", "LESS*", "*_PRELOAD", "*_PATH", "*PROXY", "*proxy", "HOME",
    "*MAKEFLAGS", "MFLAGS", "*_WRAPPER", "PYTEST_*", "npm_config_*", "NPM_CONFIG_*", "CARGO_*", "VISUAL", "SHELL",
    "GO*", "JAVA*", "CC", "CXX", "TAR_*", "GREP_*", "RIPGREP_*", "XDG_*", "TMPDIR",
)  # fmt: skip


class ShellRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner says about commands that begin with these words."""

    words: Argv
    approval: Approval
    rule: Rule
    note: str | None = None
    expires: float | None = None
    expands: frozenset[str] = frozenset()


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """How far lines are shut in with their zones: whether they see the network, and what else they may read."""

    network: bool = False
    readable: tuple[str, ...] = ()
