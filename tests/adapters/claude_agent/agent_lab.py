"""A folder, a scripted model on loopback, and Claude Code as the SDK brings it: what ran, what the model was told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from tests.clients.loopback_model import LoopbackModel, ModelCall

SECONDS = 100
_QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")


@dataclass
class AgentLab:
    """One agent's home and project; `ran` is what its shell has written."""

    home: Path
    project: Path
    model: LoopbackModel

    def shell(self, word: str) -> ModelCall:
        """Return the call of a shell line that writes a word."""
        return ModelCall("Bash", {"command": f"echo {word} >> ran.txt", "description": "a test"})

    def options(self, **others: Any) -> ClaudeAgentOptions:
        """Return options that allow the shell, so that only a hook can stop it."""
        env = {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none", "HOME": str(self.home)}
        given = ClaudeAgentOptions(cwd=self.project, allowed_tools=["Bash"], env=env | dict.fromkeys(_QUIET, "1"))
        return replace(given, **others)

    def set_user_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings of the user."""
        (self.home / ".claude").mkdir(exist_ok=True)
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    async def run(self, options: ClaudeAgentOptions, *turns: list[ModelCall], prompt: Any = "go") -> ResultMessage:
        """Run the agent to its end or its stop; the model makes these calls, turn by turn."""
        if turns:
            self.model.script.turns = [*turns]
        last: ResultMessage | None = None
        with anyio.fail_after(SECONDS):
            async for message in query(prompt=prompt, options=options):
                if isinstance(message, ResultMessage):
                    last = message
        assert last is not None
        return last

    @property
    def ran(self) -> list[str]:
        """The words that shell lines have written."""
        file = self.project / "ran.txt"
        return file.read_text().split() if file.exists() else []

    @property
    def told(self) -> str:
        """All that the model was shown last, as text."""
        return json.dumps(self.model.script.seen[-1]["messages"])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[AgentLab]:
    """Give a test its laboratory."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    with LoopbackModel() as model:
        yield AgentLab(home, project, model)
