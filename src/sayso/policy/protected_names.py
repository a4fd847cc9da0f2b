"""Protected names: files that programs and agents obey by default, and that no tool changes unasked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import pairwise

TRASH = ".sayso-trash"  # the folder of a zone for deleted files

# Files that a shell, git, an editor, an interpreter or an agent obeys by default, and files with their keys; each name
# covers everything below it. A file that has to be run explicitly (a Makefile, a workflow of the CI) is not among
# them: editing one is ordinary work, and `sayso check` says where a rule runs one (`shell.obeyed_files`). All in lower
# case, because the comparison ignores case.
_PROTECTED_NAMES = frozenset((
    # sayso
    "sayso.yaml", "sayso.yml", "sayso.test.yaml", "sayso.test.yml", ".sayso", TRASH,
    # git, and hooks that live in the tree; `git~1` is the short name of `.git` on FAT and NTFS
    ".git", "git~1", ".config/git", ".gitmodules", ".gitattributes", ".git-credentials", ".githooks", ".lfsconfig",
    ".husky", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml",
    # other version control
    ".hg", ".hgrc", ".hgsub", ".jj", ".sl", ".svn", ".subversion", ".bzr", ".fossil-settings", ".arcconfig",
    # shells, sessions and terminals
    ".bash_completion", ".lessfilter", ".lesskey",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
    "config.fish", ".config/fish", ".envrc", ".direnvrc", ".autoenv.zsh", ".pam_environment", ".xprofile", ".xinitrc",
    ".xsession", ".xsessionrc", ".tmux.conf", ".config/tmux", ".config/direnv", ".config/mise", ".config/hg",
    ".screenrc", ".forward", ".config/bash", ".config/zsh", ".config/kitty", ".config/nushell", ".config/alacritty",
    ".config/autostart", ".config/environment.d", ".config/systemd", "library/launchagents", "library/launchdaemons",
    ".local/bin",
    # versions of interpreters and tools, by name or by path
    ".rustup", ".nvm", ".pyenv", ".rbenv", ".asdf", ".sdkman", ".volta", ".krew", ".config/go",
    ".tool-versions", ".asdfrc", ".mise", "mise/config.toml", ".prototools", "rust-toolchain", "rust-toolchain.toml",
    # keys, and settings that name a program to fetch keys with
    ".ssh", ".gnupg", ".netrc", "_netrc", ".aws/config", ".aws/credentials", ".docker/config.json",
    ".docker/cli-plugins", ".kube/config", ".kube/kuberc", ".config/gcloud", ".config/gh", ".azure/config",
    ".pgpass", ".pg_service.conf", ".mylogin.cnf", ".terraformrc", "terraform.rc", ".terraform.d", ".tofurc",
    ".config/containers", ".config/rclone", ".config/helm", ".s3cfg", ".boto", ".vault-token",
    ".aws/cli", ".azure/cliextensions", ".sentryclirc", ".config/k9s", "helm/plugins", "gh/extensions",
    # package managers and build tools
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".pypirc", ".pip", "pip.conf", "pip.ini",
    ".config/pip", "uv.toml", ".config/uv", ".config/pypoetry", ".pydistutils.cfg", ".condarc", ".cargo", ".bundle",
    ".gemrc", ".gradle/init.d", ".gradle/init.gradle", ".gradle/init.gradle.kts", ".gradle/gradle.properties",
    "gradle/wrapper", ".m2/settings.xml", ".m2/extensions.xml", ".mvn", ".mavenrc", ".sbtopts", ".jvmopts", ".bazelrc",
    ".bazeliskrc", "nuget.config", "bunfig.toml", ".bunfig.toml", ".latexmkrc", "latexmkrc",
    # interpreters, clients and debuggers
    "sitecustomize.py", "usercustomize.py", ".pythonrc", ".pythonrc.py", ".pdbrc", ".ipython", ".jupyter", ".rprofile",
    ".renviron", ".irbrc", ".pryrc", ".psqlrc", ".sqliterc", ".duckdbrc", ".my.cnf", ".mongorc.js", ".mongoshrc.js",
    ".gdbinit", ".gdbearlyinit", ".lldbinit", ".config/gdb", ".valgrindrc", ".radare2rc", ".curlrc", "_curlrc",
    ".config/curlrc", ".wgetrc", ".lftprc", ".mailrc", ".muttrc", ".ghci", ".ocamlinit", ".iex.exs", ".erlang",
    ".octaverc", ".julia/config", ".sbclrc", ".guile", ".perldb", ".proverc", ".psysh.php", ".jq", ".usqlrc",
    ".myclirc", ".config/pgcli", ".config/litecli", ".ackrc", ".ctags", ".ctags.d", ".config/bat", ".aria2",
    ".config/aria2", ".httpie", ".config/httpie", ".tigrc", ".config/tig", ".jjconfig.toml", ".config/jj",
    ".config/glab-cli", ".config/lazygit", ".config/starship.toml",
    # editors, and machines that start with a folder
    ".vscode", ".vscode-server", ".vscode-insiders", ".config/code", ".config/zed", ".config/helix", ".helix",
    ".config/emacs", ".idea", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", ".vim", ".vimrc", ".lvimrc",
    ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el",
    ".dir-locals-2.el", ".replit", ".gitpod.yml", ".idx", ".codesandbox", ".stackblitzrc",
    # agents and MCP
    ".mcp.json", "mcp.json", ".agent", ".agents", "agent.md", "agents.md", "agents.override.md", ".amazonq", ".amp",
    ".augment", ".claude", ".claude.json", "claude.md", "claude.local.md", "claude_desktop_config.json", ".cline",
    ".clinerules", ".codebuddy", "codebuddy.md", ".codeium", ".codex", ".continue", ".continuerc.json", ".copilot",
    "copilot-instructions.md", ".crush", "crush.json", ".crush.json", ".cursor", ".cursorrules", ".factory", ".gemini",
    "gemini.md", ".github/agents", ".github/chatmodes", ".github/hooks", ".github/instructions", ".github/prompts",
    ".goose", ".goosehints", ".iflow", "iflow.md", ".junie", ".kilocode", ".kilocodemodes", ".kilocoderules", ".kiro",
    ".opencode", "opencode.json", "opencode.jsonc", ".openhands", ".openhands_instructions", ".qoder", ".qwen",
    "qwen.md", "replit.md", ".roo", ".roomodes", ".roorules", ".rules", ".serena", ".trae", ".vibe", ".warp", "warp.md",
    ".windsurf", ".windsurfrules", ".config/goose", ".config/opencode", ".config/crush",
))  # fmt: skip
_PROTECTED_PATTERN = re.compile(
    r"\.aider.*|.*\.code-workspace|.*\.pth"
    r"|\.gitconfig.*|(?:.*[._-])?gitconfig"  # also one that the owner's configuration includes
    r"|\.?mise(?:\..+)?\.toml|\.?lefthook(?:-local)?\.(?:ya?ml|toml|json)|\.?pnpmfile\.[cm]?js|\.pnp\..+"
)
# With a file `HEAD`, git takes a folder for a repository as soon as `objects` and `refs` are there as well, or a
# `commondir`. So that file is never written, and in a folder that has one git's own names are protected, as those in
# `.git` are. Other names are not: people keep work trees in the folder of a bare repository.
_HEAD = "head"
_OF_A_REPOSITORY = frozenset((
    "branches", "commondir", "config", "config.worktree", "description", "gitdir", "hooks", "index", "info", "lfs",
    "logs", "modules", "objects", "packed-refs", "refs", "reftable", "remotes", "shallow", "worktrees",
))  # fmt: skip

# What is changed only if a person says so: names that are ordinary work now and then, or that a line which installs
# something has to write, so that they are not frozen for confined lines.
_HOLDS_RULES = "pyproject.toml"  # it may hold a policy in `[tool.sayso]`
_REWRITES = frozenset({"ruff.toml", ".ruff.toml"})  # `fix = true` makes a check change files
_INSTALLED = frozenset((
    "node_modules", "site-packages", "dist-packages", ".venv", "venv", "pyvenv.cfg", ".tox", ".nox", ".terraform",
))  # fmt: skip
_VERSIONS = frozenset((
    ".python-version", ".ruby-version", ".node-version", ".nvmrc", ".java-version", ".go-version",
    ".bazelversion", ".terraform-version", ".opentofu-version", ".sdkmanrc",
))  # fmt: skip
# `core.hooksPath` of the owner may lead to any folder, where git runs the files of these names.
_HOOKS = frozenset((
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "proc-receive",
    "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite",
    "sendemail-validate", "fsmonitor-watchman", "post-index-change",
))  # fmt: skip


def fold(path: str) -> str:
    """Normalise a path: some file systems ignore case, some also invisible characters."""
    if not path.isascii():
        path = "".join(each for each in path if unicodedata.category(each) != "Cf")
    return path.casefold()


def _names(path: str) -> list[str]:
    return [name.rstrip(" .") for name in fold(path).split("/")]  # FAT drops trailing dots and blanks


def joins_protected_name(folder: str, name: str) -> bool:
    """Whether a folder and a name in it make a protected name of two."""
    return f"{fold(folder)}/{fold(name)}" in _PROTECTED_NAMES


def protected_name(path: str) -> str | None:
    """Return the name in a path that is never changed by a tool, if there is one."""
    names = _names(path)
    for folder, name in pairwise(("", *names)):
        if name in _PROTECTED_NAMES or _PROTECTED_PATTERN.fullmatch(name):
            return name
        if f"{folder}/{name}" in _PROTECTED_NAMES:
            return f"{folder}/{name}"
    return _HEAD.upper() if names[-1] == _HEAD else None


def repository_folders(path: str) -> Iterator[str]:
    """Yield each folder of a path in which it has one of git's own names, so that a `HEAD` there protects it."""
    names = path.split("/")
    for at, name in enumerate(_names(path)):
        if name in _OF_A_REPOSITORY:
            yield "/".join(names[:at])


def protected_among(folder: str, names: Collection[str]) -> list[str]:
    """Return the protected ones of all names in a folder; those of folders end with a slash."""
    is_repository = any(fold(name) == _HEAD for name in names)
    return [
        name
        for name in names
        if protected_name(f"{folder}/{name}") or (is_repository and _names(name)[0] in _OF_A_REPOSITORY)
    ]


def consent_reason(path: str) -> str | None:
    """Return why a path is not changed unasked, whatever its zone says; None for an ordinary one."""
    names = _names(path)
    if names[-1] == _HOLDS_RULES:
        return "can hold rules of sayso"
    if names[-1] in _HOOKS:
        return "has the name of a hook, which git may run"
    if names[-1] in _VERSIONS:
        return "says which interpreter runs"
    if names[-1] in _REWRITES:
        return "can make a program that checks files change them"
    if not _INSTALLED.isdisjoint(names):
        return "is part of what is installed for programs to run"
    return None
