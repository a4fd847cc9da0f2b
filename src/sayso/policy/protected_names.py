"""Protected names: files that programs and agents obey by default, and that no tool changes unasked.

Tests: tests/policy/test_zones.py
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

TRASH = ".sayso-trash"  # the folder of a zone for deleted files

# Files that a shell, git, an editor, an interpreter or an agent obeys by default, and files with their keys; each name
# covers everything below it. A file that has to be run explicitly (a Makefile, a workflow of the CI) is not among
# them: editing one is ordinary work. All in lower case, because the comparison ignores case.
_PROTECTED_NAMES = frozenset((
    # sayso
    "sayso.yaml", "sayso.yml", "sayso.test.yaml", "sayso.test.yml", ".sayso", TRASH,
    # git, and hooks that live in the tree; `git~1` is the short name of `.git` on FAT and NTFS
    ".git", "git~1", ".gitconfig", ".config/git", ".gitmodules", ".gitattributes", ".git-credentials", ".githooks",
    ".husky", ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", ".lefthook.yml", ".overcommit.yml",
    ".hg", ".hgrc",
    # shells, sessions and terminals
    ".bash_completion", ".lessfilter", ".lesskey", ".ghci", ".jj", "mise.toml", ".mise.toml", ".rules", "agent.md",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
    "config.fish", ".config/fish", ".envrc", ".direnvrc", ".pam_environment", ".xprofile", ".xinitrc", ".xsession",
    ".xsessionrc", ".tmux.conf", ".config/tmux", ".config/direnv", ".config/mise", ".config/hg", ".screenrc",
    ".forward", "mise.local.toml", ".mise.local.toml", ".config/bash", ".config/zsh", ".config/kitty",
    ".config/alacritty", ".config/autostart", ".config/environment.d", ".config/systemd", "library/launchagents",
    # keys, and settings that name a program to fetch keys with
    ".ssh", ".gnupg", ".netrc", "_netrc", ".aws/config", ".aws/credentials", ".docker/config.json", ".kube/config",
    # package managers, interpreters and debuggers
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pypirc", ".pip", ".config/pip", ".cargo",
    ".gradle/init.d", ".m2/settings.xml", ".bazelrc", ".julia/config", ".config/gdb", "bunfig.toml", ".bunfig.toml",
    "sitecustomize.py", "usercustomize.py", ".pythonrc", ".pythonrc.py", ".pdbrc", ".ipython", ".jupyter", ".rprofile",
    ".renviron", ".irbrc", ".pryrc", ".psqlrc", ".sqliterc", ".gdbinit", ".lldbinit", ".curlrc", ".wgetrc",
    # editors
    ".vscode", ".vscode-server", ".vscode-insiders", ".config/code", ".config/zed", ".config/helix", ".helix",
    ".config/emacs", ".idea", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", ".vim", ".vimrc",
    ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el",
    # agents and MCP
    ".mcp.json", "mcp.json", ".agents", "agents.md", "agents.override.md", ".amazonq", ".augment", ".claude",
    ".claude.json", "claude.md", "claude.local.md", "claude_desktop_config.json", ".cline", ".clinerules", ".codeium",
    ".codex", ".continue", ".continuerc.json", ".copilot", "copilot-instructions.md", ".crush", "crush.json",
    ".crush.json", ".cursor", ".cursorrules", ".gemini", "gemini.md", ".github/agents", ".github/chatmodes",
    ".github/hooks", ".github/instructions", ".github/prompts", ".goose", ".goosehints", ".junie", ".kiro",
    ".opencode", "opencode.json", "opencode.jsonc", ".qwen", "qwen.md", ".roo", ".roomodes", ".roorules", ".trae",
    ".windsurf", ".windsurfrules", ".config/goose", ".config/opencode", ".config/crush",
))  # fmt: skip
_NAME_PREFIXES = (".aider",)
_HOLDS_RULES = "/pyproject.toml"  # it may hold a policy in `[tool.sayso]`, but editing it is also ordinary work
_NAME_SUFFIXES = (".code-workspace", ".pth")


def fold(path: str) -> str:
    """Normalise a path: some file systems ignore case, some also invisible characters."""
    if not path.isascii():
        path = "".join(each for each in path if unicodedata.category(each) != "Cf")
    return path.casefold()


def joins_protected_name(folder: str, name: str) -> bool:
    """Whether a folder and a name in it make a protected name of two."""
    return f"{fold(folder)}/{fold(name)}" in _PROTECTED_NAMES


def holds_rules(path: str) -> bool:
    """Whether the file may hold rules of sayso, among other things."""
    return fold(path).rstrip(" .").endswith(_HOLDS_RULES)


def protected_name(path: str) -> str | None:
    """Return the name in a path that is never changed by a tool, if there is one."""
    names = [name.rstrip(" .") for name in fold(path).split("/")]  # FAT drops trailing dots and blanks
    for folder, name in pairwise(("", *names)):
        if name in _PROTECTED_NAMES or name.startswith(_NAME_PREFIXES) or name.endswith(_NAME_SUFFIXES):
            return name
        if f"{folder}/{name}" in _PROTECTED_NAMES:
            return f"{folder}/{name}"
    return None
