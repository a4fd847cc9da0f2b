"""Copilot CLI in a laboratory."""

from __future__ import annotations

import shutil
from typing import Any

from tests.clients.client_lab import PACKAGES, ClientLab, write_json
from tests.clients.loopback_model import ModelCall


class CopilotLab(ClientLab):
    """Copilot CLI, which is told to run everything unasked."""

    client = "copilot"

    def command(self, *flags: str) -> list[str]:
        program = [shutil.which("node") or "node", str(PACKAGES / "@github" / "copilot" / "npm-loader.js")]
        return [*program, "-p", "go", "--allow-all-tools", *flags]

    def environment(self) -> dict[str, str]:
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-5.2",
        }

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        entry = {"type": "command", "bash": command, "timeoutSec": seconds, **options}
        hooks = {"version": 1, "hooks": {"preToolUse": [entry]}}
        write_json(self.home / ".copilot" / "hooks" / "gate.json", hooks)

    def shell(self, line: str) -> ModelCall:
        return ModelCall("bash", {"command": line, "description": "a test"})

    def told(self) -> list[str]:
        return [str(each["content"]) for each in self.last_conversation("messages") if each["role"] == "tool"]
