"""Gemini CLI, and Qwen Code that comes of it, in a laboratory."""

from __future__ import annotations

import json
import shutil
from typing import Any

from tests.clients.client_lab import PACKAGES, ClientLab, write_json
from tests.clients.loopback_model import ModelCall

_QUIET: dict[str, Any] = {
    "general": {"enableAutoUpdate": False},
    "telemetry": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
}


class GeminiLab(ClientLab):
    """Gemini CLI, which runs everything unasked."""

    client = "gemini"

    def command(self, *flags: str) -> list[str]:
        program = [shutil.which("node") or "node", str(PACKAGES / "@google" / "gemini-cli" / "bundle" / "gemini.js")]
        return [*program, "-p", "go", "--approval-mode", "yolo", "--skip-trust", *flags]

    def environment(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url}

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        hook = {"type": "command", "name": "gate", "command": command, "timeout": seconds * 1000, **options}
        entry = [{"matcher": ".*", "hooks": [hook]}]
        settings = {
            **_QUIET,
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "model": {"name": "gemini-2.5-flash"},
            "hooksConfig": {"enabled": True},
            "hooks": {"BeforeTool": entry, "AfterTool": entry},
        }
        write_json(self.home / ".gemini" / "settings.json", settings)

    def shell(self, line: str) -> ModelCall:
        return ModelCall("run_shell_command", {"command": line})

    def told(self) -> list[str]:
        parts = [part for each in self.last_conversation("contents") for part in each["parts"]]
        return [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]


class QwenLab(ClientLab):
    """Qwen Code, which runs everything unasked."""

    client = "qwen"

    def command(self, *flags: str) -> list[str]:
        program = [shutil.which("node") or "node", str(PACKAGES / "@qwen-code" / "qwen-code" / "cli.js")]
        return [*program, "-p", "go", "--approval-mode", "yolo", *flags]

    def environment(self) -> dict[str, str]:
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_MODEL": "scripted"}

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        hook = {"type": "command", "name": "gate", "command": command, "timeout": seconds * 1000, **options}
        entry = [{"matcher": "*", "hooks": [hook]}]
        settings = {
            **_QUIET,
            "security": {"auth": {"selectedType": "openai"}},
            "hooks": {"PreToolUse": entry, "PostToolUse": entry},
        }
        write_json(self.home / ".qwen" / "settings.json", settings)

    def shell(self, line: str) -> ModelCall:
        return ModelCall("run_shell_command", {"command": line, "is_background": False})

    def told(self) -> list[str]:
        return [str(each["content"]) for each in self.last_conversation("messages") if each["role"] == "tool"]
