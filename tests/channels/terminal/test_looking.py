"""What people can look at: all of it in a pager, the rule with its lines, who else looks, in readable colours."""

import json
import re
import sys
from pathlib import Path

import pytest
from tests.channels.terminal.asking import CHILD, SEE, ask, elsewhere, program
from tests.terminal import KEYS, Terminal

from sayso.channels.terminal.colours import STYLE

LONG = "\n".join(f"line {number}" for number in range(100))
DIFF = "--- a/prices\n+++ b/prices\n@@ -9,3 +9,3 @@\n milk\n-tea 3\n+tea 4\n cake\n"


def test_all_of_it_opens_in_the_persons_pager_and_counts_as_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", program(tmp_path / "pager", f"cat > {tmp_path}/shown") + " --its-own-option")
    terminal = ask(args=[{"item": f"{LONG}\n\u202ex", "price": 4}])
    terminal.press("v")
    terminal.press("y", at=KEYS)
    assert "RAN: line 0" in terminal.end()[0]
    shown = (tmp_path / "shown").read_text()
    assert "│   line 50\n" in shown
    assert "│   \\u202ex\n" in shown


@pytest.mark.parametrize(("colour", "options"), [("", "-R"), ("1", "")])
def test_less_gets_our_colours_only_where_colours_are_wanted_and_can_start_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str, options: str
) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "less", f'cat > {tmp_path}/shown; echo "$*|$LESSSECURE" > {tmp_path}/how')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("PAGER", raising=False)
    command = ["/usr/bin/env", f"NO_COLOR={colour}", sys.executable, CHILD, "async", json.dumps({"diff": DIFF})]
    terminal = Terminal(command, rows=200)
    terminal.press("v")
    terminal.press("n")
    terminal.end()
    assert (tmp_path / "how").read_text() == f"{options}|1\n"
    assert ("\x1b[" in (tmp_path / "shown").read_text()) is bool(options)


@pytest.mark.parametrize("pager", ["/no/such/pager", "false", "'unbalanced"])
def test_a_pager_that_cannot_be_run_is_told_and_all_of_it_is_printed(
    pager: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", pager)
    terminal = ask(args=[{"item": LONG, "price": 4}])
    terminal.press("v")
    assert "│   line 50\n" in terminal.wait_for("Shown here, because")
    terminal.press("y")
    assert "RAN: line 0" in terminal.end()[0]


def test_the_rule_is_shown_with_the_lines_around_it(tmp_path: Path) -> None:
    rules = tmp_path / "sayso.yaml"
    rules.write_text("default: none\n# prices are hot\ntools:\n  set_price: required\n  other: none\n")
    terminal = ask(policy=str(rules), columns=120)
    terminal.wait_for(KEYS)
    rules.write_text(rules.read_text().replace("hot", "\x1b[31mhot"))  # whatever has become of the file
    terminal.press("r")
    screen = terminal.wait_for("why this is asked")
    terminal.wait_for(KEYS)
    assert "  rule        tools.set_price\n" in screen
    assert "sayso.yaml, line 4\n" in screen.replace("\n            ", "")
    assert "  │    2   # prices are \\x1b[31mhot\n" in screen
    assert "  │    4 ▸   set_price: required\n" in screen
    terminal.press("n")
    terminal.end()


def test_a_rule_whose_file_is_gone_is_named_all_the_same(tmp_path: Path) -> None:
    rules = tmp_path / "sayso.yaml"
    rules.write_text("default: none\ntools:\n  set_price: required\n")
    terminal = ask(policy=str(rules), columns=120)
    terminal.wait_for(KEYS)
    rules.unlink()
    terminal.press("r")
    screen = terminal.wait_for("why this is asked")
    assert "line 3" in screen
    assert "▸" not in screen
    terminal.press("n")
    terminal.end()


def test_who_else_has_it_before_them_is_said_and_oneself_is_not(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    terminal = ask(store=str(store))
    terminal.wait_for(KEYS)
    elsewhere(store, SEE)
    screen = terminal.wait_for("also seen by bob (page)")
    assert "ann (terminal)" not in screen
    terminal.press("n")
    terminal.end()


# --- Colours -----------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = (each / 255 for each in bytes.fromhex(colour))
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", [name for name, _ in STYLE.style_rules])
@pytest.mark.parametrize("background", ["ffffff", "fdf6e3", "000000", "1e1e1e"])
def test_every_colour_can_be_read_on_light_and_on_dark(name: str, background: str) -> None:
    """By the contrast that the web's guidelines ask of large text, 3 : 1; white, cream, black and a grey black."""
    colour = STYLE.get_attrs_for_style_str(f"class:{name}").color
    if colour:
        light, dark = sorted([luminance(colour), luminance(background)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_come_only_where_they_are_wanted(no_color: str, coloured: bool) -> None:
    command = ["/usr/bin/env", f"NO_COLOR={no_color}", sys.executable, CHILD, "async", json.dumps({"diff": DIFF})]
    terminal = Terminal(command, rows=200)
    terminal.press("n")
    terminal.end()
    assert bool(re.search(rb"\x1b\[[0-9;]*38;", terminal.raw)) is coloured
