"""Records of the shell rules: token-prefix rules for commands, and the confinement (sandbox) of lines.

Tests: tests/policy/shell/test_judge.py
"""

from __future__ import annotations

import msgspec

from sayso.core.model import Approval, Rule
from sayso.policy.shell.wrappers import Argv

# Variables that change the code that runs; no list of inert ones may name them.
CODE_LOADING_VARIABLES = (
    "PATH", "LD_*", "DYLD_*", "GIT_*", "*PAGER", "*EDITOR", "BASH_*", "ENV", "IFS", "PS4", "PYTHON*", "NODE_*", "*OPTS",
    "PERL5*", "RUBY*", "*_OPTIONS", "PROMPT_COMMAND", "LESS*", "*_PRELOAD", "*_PATH", "*PROXY", "*proxy", "HOME",
    "*MAKEFLAGS", "MFLAGS", "*_WRAPPER", "PYTEST_*", "npm_config_*", "NPM_CONFIG_*", "CARGO_*", "VISUAL", "SHELL",
    "GO*", "JAVA*", "CC", "CXX", "TAR_*", "GREP_*", "RIPGREP_*", "XDG_*", "TMPDIR",
)  # fmt: skip


class ShellRule(msgspec.Struct, frozen=True, kw_only=True):
    """Token-prefix rule: the approval for commands that begin with these words."""

    words: Argv
    approval: Approval
    rule: Rule
    note: str | None = None
    expires: float | None = None
    expands: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()  # that need no proof
    every_option: bool = False


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """Sandbox settings of shell lines: access to the network, and readable paths besides the zones."""

    network: bool = False
    readable: tuple[str, ...] = ()
