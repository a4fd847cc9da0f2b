"""Codex in a laboratory."""

from __future__ import annotations

import shutil
from typing import Any

from tests.clients.client_lab import PACKAGES, ClientLab, write_json
from tests.clients.loopback_model import ModelCall


class CodexLab(ClientLab):
    """Codex with full access, which trusts the hooks of its home without a review."""

    client = "codex"

    def command(self, *flags: str) -> list[str]:
        settings = self.home / ".codex" / "config.toml"
        settings.parent.mkdir(exist_ok=True)
        trusted = settings.read_text().partition("[hooks.state.") if settings.exists() else ("", "", "")
        settings.write_text(
            'model = "gpt-5.2-codex"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "{self.model.url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
            f"request_max_retries = 0\nstream_max_retries = 0\n{trusted[1]}{trusted[2]}"
        )
        program = [shutil.which("node") or "node", str(PACKAGES / "@openai" / "codex" / "bin" / "codex.js")]
        trust = [] if "--untrusted" in flags else ["--dangerously-bypass-hook-trust"]
        return [*program, "exec", "--skip-git-repo-check", "--json", "-s", "danger-full-access", *trust, "-"]

    def environment(self) -> dict[str, str]:
        # Its sandbox's helper does not start if its home lies in the folder for temporary files.
        return {"SCRIPTED_KEY": "none", "TMPDIR": "/var/tmp"}  # noqa: S108 - as above

    def set_hook(self, command: str, *, seconds: int = 120, **options: Any) -> None:
        entry = [{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": seconds, **options}]}]
        write_json(self.home / ".codex" / "hooks.json", {"hooks": {"PreToolUse": entry, "PostToolUse": entry}})

    def shell(self, line: str) -> ModelCall:
        return ModelCall("exec_command", {"cmd": line})

    def told(self) -> list[str]:
        items = self.last_conversation("input")
        return [str(each.get("output")) for each in items if str(each.get("type")).endswith("_output")]
