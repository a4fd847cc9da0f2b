"""Makes the pictures of the docs anew from the real program; `--check` only says which is out of date.

Pictures of terminals are the same whenever they are made, so they are checked by making them once more. Screenshots are
not, since browsers and fonts differ: `sources.json` has a hash over each and what it shows.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pictures_scene import KEYS, Scene, scene

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
SOURCES = FOLDER / "sources.json"
MAKERS = ("docs/pictures_scene.py", "docs/pictures_browser.py")
PAGE = (*MAKERS, "src/sayso/server/static/*", "src/sayso/channels/display/answer_keys.py")
SHOWN = {  # the screenshots, and the files that they show; a pattern has to find some
    "hub.png": PAGE,
    "hub-phone.png": PAGE,
    "streamlit.png": (
        *MAKERS,
        "src/sayso/streamlit.py",
        "src/sayso/channels/display/*.py",
        "examples/streamlit_app.py",
    ),
}


def terminals(place: Scene) -> dict[str, str]:
    """Make the pictures of terminals: agents that ask, and somebody who looks at what they ask; the agents go on."""
    agents = place.agents()
    found = {"question.svg": agents["coder"].picture("An agent wants to change a file, and sayso asks in the terminal")}
    for terminal in agents.values():
        terminal.press("l")
        terminal.wait_for("Left to others.")
    watch = place.terminal("ann", rows=20)
    watch.type("sayso watch")
    for text in ("[j/k] move", "3 wait", "bob (terminal)"):
        watch.wait_for(text)
    found["watch.svg"] = watch.picture("sayso watch: three requests wait, and the first is shown in full")
    watch.press("q")
    watch.wait_for_prompt()
    return found


def commands(place: Scene) -> dict[str, str]:
    """Make the pictures of commands, one of which answers an agent."""
    inbox = place.terminal("ann")
    inbox.run("sayso pending")
    first = inbox.screen.split("\n")[1].split()[0]
    inbox.run(f"sayso approve {first} -m 'as agreed'")
    rules = place.terminal("ann")
    rules.run("sayso init")
    rules.run("sayso explain --shell 'git status && rm -rf build'")
    mail = place.terminal("ann")
    mail.type("python mail.py")
    mail.wait_for(KEYS)
    return {
        "pending.svg": inbox.picture("sayso pending lists what waits, and sayso approve answers it"),
        "explain.svg": rules.picture("sayso explain says what happens to a command line, and why"),
        "mail.svg": mail.picture("sayso asks whether a mail may be sent"),
    }


def digest(name: str, picture: bytes) -> str:
    """Hash a screenshot together with the files that it shows."""
    found = hashlib.sha256(picture)
    for pattern in SHOWN[name]:
        files = sorted(ROOT.glob(pattern))
        if not files:
            sys.exit(f"docs/pictures.py names {pattern}, and there is no such file: name what {name} shows")
        for file in files:
            found.update(file.read_bytes())
    return found.hexdigest()


def make() -> None:
    """Make all of them."""
    from pictures_browser import chromium, hub, streamlit  # noqa: PLC0415 - checking them needs no browser

    with scene() as place:
        drawn = terminals(place)
        with chromium() as browser:
            shots = hub(place, browser) | streamlit(place, browser)
        drawn |= commands(place)
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawn.items():
        _write(name, text.encode())
    for name, data in shots.items():
        _write(name, data)
    digests = {name: digest(name, data) for name, data in shots.items()}
    SOURCES.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


def _write(name: str, data: bytes) -> None:
    FOLDER.joinpath(name).write_bytes(data)
    print(f"· docs/pictures/{name}: {len(data):,} bytes")


def outdated() -> Iterator[str]:
    """Yield the name of each picture that does not show what the program shows."""
    known: dict[str, str] = json.loads(SOURCES.read_text(encoding="utf-8"))
    for name in SHOWN:
        file = FOLDER / name
        if not file.exists() or known.get(name) != digest(name, file.read_bytes()):
            yield name
    with scene() as place:
        drawn = terminals(place) | commands(place)
    for name, text in drawn.items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            yield name
    for file in sorted(FOLDER.iterdir()):
        if file.name not in {*SHOWN, *drawn, SOURCES.name}:
            yield file.name


def main(arguments: list[str]) -> None:
    """Make the pictures, or say which are out of date."""
    if arguments not in ([], ["--check"]):
        sys.exit("usage: python docs/pictures.py [--check]")
    if not arguments:
        make()
        return
    names = list(outdated())
    if names:
        listed, are = ", ".join(f"docs/pictures/{name}" for name in names), "is" if len(names) == 1 else "are"
        sys.exit(f"{listed} {are} out of date: run `python3 dev.py pictures`")


if __name__ == "__main__":
    main(sys.argv[1:])
