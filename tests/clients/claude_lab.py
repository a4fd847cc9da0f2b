"""Claude Code in a laboratory."""

from __future__ import annotations

from typing import Any, cast

from tests.clients.client_lab import ClientLab, native, write_json
from tests.clients.loopback_model import ModelCall


class ClaudeLab(ClientLab):
    """Claude Code, whose command line allows its shell, so that a hook that fails open lets the call run."""

    client = "claude"

    def command(self, *flags: str) -> list[str]:
        return [
            str(native("@anthropic-ai/claude-code") / "claude"),
            "-p",
            "--output-format",
            "json",
            "--allowedTools",
            "Bash",
            *flags,
        ]

    def environment(self) -> dict[str, str]:
        quiet = dict.fromkeys(
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"), "1"
        )
        return {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none", **quiet, **self.variables}

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        entry = {"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": seconds, **options}]}
        self.set_settings(PreToolUse=[entry])

    def set_settings(self, **hooks: Any) -> None:
        """Write the settings of the project."""
        write_json(self.project / ".claude" / "settings.json", {"hooks": hooks})

    def shell(self, line: str) -> ModelCall:
        return ModelCall("Bash", {"command": line, "description": "a test"})

    def told(self) -> list[str]:
        said: list[Any] = [each["content"] for each in self.last_conversation("messages")]
        blocks: list[Any] = [block for each in said if isinstance(each, list) for block in cast("list[Any]", each)]
        return [str(block["content"]) for block in blocks if block["type"] == "tool_result"]
