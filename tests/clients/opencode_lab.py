"""Opencode in a laboratory, with sayso's plugin, or another in its place."""

from __future__ import annotations

import json
import shlex
from importlib import resources
from typing import Any

from tests.clients.client_lab import ClientLab, native, write_json
from tests.clients.loopback_model import ModelCall

PLUGIN = resources.files("sayso.adapters.coding_agents") / "opencode_plugin.js"


class OpencodeLab(ClientLab):
    """Opencode, which runs everything unasked."""

    client = "opencode"

    def command(self, *flags: str) -> list[str]:
        options = {"baseURL": f"{self.model.url}/v1", "apiKey": "none"}
        models = {"scripted": {"name": "scripted"}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "lab", "options": options, "models": models}
        settings = {"provider": {"lab": provider}, "model": "lab/scripted", "small_model": "lab/scripted"}
        write_json(self.project / "opencode.json", {**settings, "autoupdate": False, "share": "disabled"})
        program = native("opencode") / "bin" / "opencode"
        return [str(program), "run", *flags]

    def environment(self) -> dict[str, str]:
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{each}": "1" for each in names}

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        text = PLUGIN.read_text(encoding="utf-8")
        own = 'const COMMAND = ["sayso", "hook", "opencode"]'
        assert own in text
        self.set_plugin(text.replace(own, f"const COMMAND = {json.dumps(shlex.split(command))}"))

    def set_plugin(self, text: str) -> None:
        """Write a plugin of the project."""
        file = self.project / ".opencode" / "plugin" / "gate.js"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def shell(self, line: str) -> ModelCall:
        return ModelCall("bash", {"command": line, "description": "a test"})

    def told(self) -> list[str]:
        return [str(each["content"]) for each in self.last_conversation("messages") if each["role"] == "tool"]
