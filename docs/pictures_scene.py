"""What the pictures tell of: a small shop with three agents that wait for a say-so, each in a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from pictures_terminal import Terminal

STILL = Path(__file__).with_name("pictures_still.py")
NOW = 1_772_443_800  # a Monday morning, at which somebody looks at the inbox
KEYS = "[q] quit"  # the last of the keys at a question
SHIM = '#!/bin/sh\nexec "{python}" "{still}" "$NOW" {program} "$@"\n'

FILES = {
    "bookkeeper.md": """---
model: scripted:bookkeeper.yaml
custom_tools:
  transfer: {approval: required, expires: 1h}
---
Pay what is due.
""",
    "bookkeeper.yaml": """turns:
  - call: transfer
    args: {to: Sailcloth Ltd, euros: 1240.75, reference: Invoice 2041}
  - {say: Paid.}
""",
    "tools.py": '''def transfer(to: str, euros: float, reference: str) -> str:
    """Transfer money from the shop's account."""
    return "sent"
''',
    "coder.md": """---
model: scripted:coder.yaml
tools: [read_file, edit_file]
sandbox:
  zones:
    shop: {root: shop}
---
Change what you are told to, and nothing else.
""",
    "coder.yaml": """turns:
  - {call: read_file, args: {path: /shop/shipping.py}}
  - {call: edit_file, args: {path: /shop/shipping.py, old: total >= 150, new: total >= 100}}
  - {say: Done.}
""",
    "releaser.md": """---
model: scripted:releaser.yaml
tools: [shell]
shell:
  folder: shop
  rules:
    - {pattern: git push, approval: required}
---
Release the shop.
""",
    "releaser.yaml": """turns:
  - {call: shell, args: {command: git push origin v1.4}}
  - {say: Released.}
""",
    "shop/shipping.py": '''FLAT = 4.90


def shipping(total: float) -> float:
    """Return what shipping costs, in euros."""
    if total >= 150:
        return 0.0
    return FLAT
''',
    "mail.py": """from sayso import ApprovalController, Policy, guard
from sayso.channels.terminal import TerminalChannel


def send_mail(to: str, text: str) -> str:
    return f"sent to {to}"


controller = ApprovalController(channels=[TerminalChannel(who="ann")], policy=Policy({"send_mail": "required"}))
mail = guard(send_mail, controller)
mail("bob@example.com", "hello")
""",
}
RUNS = {  # what is typed to start an agent, and how many seconds ago
    "sayso run bookkeeper.md 'Pay the invoices.'": 312,
    "sayso run coder.md 'Orders from 100 euros ship free.'": 130,
    "sayso run releaser.md 'Release version 1.4.'": 40,
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A folder with the files of the story, and terminals in it; the programs there are told the time."""

    folder: Path
    terminals: list[Terminal] = field(default_factory=list[Terminal])

    def settings(self, who: str, at: float = NOW) -> Mapping[str, str]:
        """The whole environment of a program: nothing of whoever makes the pictures gets into them."""
        return {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "LOGNAME": who,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "PATH": os.pathsep.join([str(self.folder / "bin"), os.environ.get("PATH", os.defpath)]),
            "PS1": "$ ",
            "NOW": str(at),
            "SAYSO_STORE": "sayso.db",
        }

    def terminal(self, who: str, at: float = NOW, *, rows: int = 60) -> Terminal:
        """A shell in a terminal, as somebody sits before it."""
        terminal = Terminal(self.folder, self.settings(who, at), rows=rows)
        self.terminals.append(terminal)
        return terminal

    def agents(self) -> dict[str, Terminal]:
        """Start the agents, and return their terminals once each of them asks."""
        found = {line: self.terminal("bob", NOW - ago) for line, ago in RUNS.items()}
        for line, terminal in found.items():
            terminal.type(line)
        for terminal in found.values():
            terminal.wait_for(KEYS)
        return {line.split()[2].removesuffix(".md"): terminal for line, terminal in found.items()}


@contextlib.contextmanager
def scene() -> Generator[Scene]:
    """Set the scene in a folder that is gone afterwards, with all that runs there."""
    with TemporaryDirectory(prefix="sayso-pictures-", ignore_cleanup_errors=True) as scratch:
        found = Scene(folder=Path(scratch))
        _write(found.folder)
        try:
            yield found
        finally:
            for terminal in found.terminals:
                terminal.end()


def _write(folder: Path) -> None:
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name, program in {"sayso": "sayso", "python": ""}.items():
        file = folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(SHIM.format(python=sys.executable, still=STILL, program=program), encoding="utf-8")
        file.chmod(0o755)
