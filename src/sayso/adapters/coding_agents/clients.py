"""Table of coding agents: what each one's hook says of a call, what it understands as an answer, how long it waits.

One record for each client, as found by running it: what stays open with it is on the page docs/coding-agents.md.

Tests: tests/adapters/coding_agents/test_client_calls.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

EventKind = Literal["before", "returned", "raised", "other"]
Edits = Literal["all", "merged", "none"]  # merged: given keys replace those of the call, and none can be removed
_MARGIN_SECONDS = 15.0
Form = Literal["claude", "codex", "gemini", "copilot", "plain"]


class ClientTool(msgspec.Struct, frozen=True):
    """A tool of a client: its name in policies, its arguments' names there, and arguments that only describe it."""

    name: str
    renamed: Mapping[str, str] = {}
    words: tuple[str, ...] = ()


class EventFields(msgspec.Struct, frozen=True, kw_only=True):
    """The names under which an event says what happens."""

    kind: str | None = "hook_event_name"  # None: each event has a command of its own
    session: str = "session_id"
    folder: str = "cwd"
    tool: str = "tool_name"
    args: str = "tool_input"
    call_ids: tuple[str, ...] = ("tool_use_id",)
    result: str = "tool_response"
    error: str = "error"


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What one coding agent's hook can do."""

    key: str
    title: str
    tools: Mapping[str, ClientTool]
    kinds: Mapping[str, EventKind]
    form: Form
    limit: float  # seconds after which it gives up its hook, unless its settings say otherwise
    fields: EventFields = EventFields()
    edits: Edits = "all"
    edits_only: str | None = None  # the one tool, by its name in policies, whose edits it takes
    defers: bool = False

    @property
    def hold(self) -> float:
        """Seconds that a call waits for its answer, so that the hook ends before the client gives it up."""
        return self.limit - _MARGIN_SECONDS


def _shell(*words: str, **renamed: str) -> ClientTool:
    return ClientTool("shell", renamed, words)


def _file(name: str, argument: str) -> ClientTool:
    return ClientTool(name, {} if argument == "path" else {argument: "path"})


_CLAUDE_KINDS: Mapping[str, EventKind] = {
    "PreToolUse": "before",
    "PostToolUse": "returned",
    "PostToolUseFailure": "raised",
    "PermissionRequest": "other",  # the call has passed PreToolUse: it is not asked about twice
}

_GEMINI_TOOLS = {
    "run_shell_command": _shell("description", is_background="run_in_background"),
    "read_file": _file("read_file", "file_path"),
    "write_file": _file("write_file", "file_path"),
    "replace": _file("edit_file", "file_path"),
    "list_directory": _file("list_files", "dir_path"),
}

CLAUDE = Client(
    key="claude",
    title="Claude Code",
    tools={
        "Bash": _shell("description"),
        "Read": _file("read_file", "file_path"),
        "Write": _file("write_file", "file_path"),
        "Edit": _file("edit_file", "file_path"),
        "MultiEdit": _file("edit_file", "file_path"),
        "NotebookEdit": _file("edit_file", "notebook_path"),
        "LS": _file("list_files", "path"),
    },
    kinds=_CLAUDE_KINDS,
    form="claude",
    limit=600.0,
    defers=True,
)

CODEX = Client(
    key="codex",
    title="Codex",
    tools={"Bash": _shell()},
    kinds=_CLAUDE_KINDS,
    form="codex",
    limit=600.0,
    edits_only="shell",
)

GEMINI = Client(
    key="gemini",
    title="Gemini CLI",
    tools=_GEMINI_TOOLS,
    kinds={"BeforeTool": "before", "AfterTool": "returned"},
    form="gemini",
    limit=60.0,
    fields=EventFields(call_ids=()),
    edits="merged",
)

QWEN = Client(
    key="qwen",
    title="Qwen Code",
    tools={
        **_GEMINI_TOOLS,
        "edit": _file("edit_file", "file_path"),
        "notebook_edit": _file("edit_file", "notebook_path"),
        "list_directory": _file("list_files", "path"),
    },
    kinds=_CLAUDE_KINDS,
    form="claude",
    limit=60.0,
    fields=EventFields(call_ids=("tool_call_id", "tool_use_id")),
    edits="none",
)

COPILOT = Client(
    key="copilot",
    title="Copilot CLI",
    tools={
        "bash": _shell("description"),
        "view": _file("read_file", "path"),
        "create": _file("write_file", "path"),
        "edit": _file("edit_file", "path"),
    },
    kinds={},
    form="copilot",
    limit=30.0,
    fields=EventFields(kind=None, session="sessionId", tool="toolName", args="toolArgs", call_ids=()),
)

OPENCODE = Client(
    key="opencode",
    title="opencode",
    tools={
        "bash": _shell("description"),
        "read": _file("read_file", "filePath"),
        "write": _file("write_file", "filePath"),
        "edit": _file("edit_file", "filePath"),
        "list": _file("list_files", "path"),
    },
    kinds={"before": "before", "after": "returned"},
    form="plain",
    limit=600.0,
    fields=EventFields(kind="event", session="session", folder="folder", tool="tool", args="args", call_ids=("call",)),
)

CLIENTS: Mapping[str, Client] = {each.key: each for each in (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, OPENCODE)}
