"""The tools of a worker's own: which functions of a `tools.py` are given, and what is said if they cannot be."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sayso.errors import ConfigurationError, PolicyError
from sayso.tools.custom import load_tools

TOOLS = '''\
from __future__ import annotations
from dataclasses import dataclass
from os.path import join
from shutil import which

import sayso
from sayso import requires_approval

__all__ = ["which"]

@dataclass
class Bill:
    amount: int

RATE = 2
called = join

def add_up(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second

def plain(x):
    return x

@requires_approval(description="Send it to {args.to}")
def send_mail(to: str) -> str:
    return to

async def fetch(url: str) -> Bill:
    return Bill(len(url) * RATE)

def _secret() -> None: ...

other_name = add_up
short = lambda x: x
'''


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return write(tmp_path, TOOLS)


def write(folder: Path, text: str) -> Path:
    path = folder / "tools.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, *names: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load_tools(path, names)
    assert isinstance(caught.value, ConfigurationError)
    return str(caught.value).replace(f"{path.parent}/", "")


def modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("sayso_tools_")}


@pytest.mark.proves("R37")
def test_exactly_the_listed_functions_are_given_in_their_order(tools: Path) -> None:
    assert [tool.__name__ for tool in load_tools(tools, ["plain", "add_up"])] == ["plain", "add_up"]
    assert load_tools(tools, []) == []
    (add_up,) = load_tools(tools, ["add_up"])
    assert (add_up(1, second=2), add_up.__doc__) == (3, "Add two numbers.")


def test_a_function_without_annotations_is_given_too(tools: Path) -> None:
    (plain,) = load_tools(tools, ["plain"])
    assert plain("x") == "x"


def test_annotations_are_what_the_file_makes_of_them(tmp_path: Path) -> None:
    (act,) = load_tools(write(tmp_path, "def act(x: int) -> str: ...\n"), ["act"])
    assert act.__annotations__ == {"x": int, "return": str}


@pytest.mark.anyio
async def test_functions_can_be_async_and_use_the_rest_of_the_file(tools: Path) -> None:
    (fetch,) = load_tools(tools, ["fetch"])
    assert (await fetch("abc")).amount == 6


def test_the_mark_of_a_function_stays_on_it(tools: Path) -> None:
    send_mail: Any
    add_up: Any
    send_mail, add_up = load_tools(tools, ["send_mail", "add_up"])
    assert send_mail.__sayso__.is_only_a_mark()
    assert getattr(add_up, "__sayso__", None) is None


def test_an_imported_function_is_given_only_if_the_file_exports_it(tools: Path) -> None:
    assert load_tools(tools, ["which"])[0]("no such program") is None
    expected = "tools.py: 'join' comes from 'posixpath'; to give it to a worker, name it in `__all__`"
    assert refused(tools, "join") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add_upp", "tools.py: there is no function 'add_upp'; did you mean 'add_up'?"),
        ("zzz", "tools.py: there is no function 'zzz'; there are add_up, plain, send_mail, fetch, other_name, short"),
        ("", "tools.py: there is no function ''; there are "),
        ("Bill", "tools.py: 'Bill' is no function but a class; write `def Bill(…)` round it"),
        ("RATE", "tools.py: 'RATE' is no function but of the type 'int'; write `def RATE(…)` round it"),
        ("sayso", "tools.py: 'sayso' is no function but of the type 'module'"),
        ("_secret", "tools.py: '_secret' is private; give a tool a name that starts with a letter"),
        ("__builtins__", "tools.py: '__builtins__' is private"),
        ("other_name", "tools.py: 'other_name' is another name of 'add_up'; list that one, or write"),
        ("short", "tools.py: 'short' is another name of '<lambda>'"),
        ("called", "tools.py: 'called' is another name of 'join'"),
    ],
)
def test_a_name_that_is_no_tool_is_refused_in_one_sentence(tools: Path, name: str, expected: str) -> None:
    told = refused(tools, "add_up", name)
    assert told.startswith(expected)
    assert "\n" not in told


def test_all_names_that_are_no_tools_are_told_at_once(tools: Path) -> None:
    assert len(refused(tools, "RATE", "add_up", "_secret", "Bill").splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\ny = x +\n", "tools.py:2:8: this cannot be imported (SyntaxError: invalid syntax"),
        (
            "x = 1\n\ny = 1 / 0\n",
            "tools.py:3:5: this cannot be imported (ZeroDivisionError: division by zero); correct",
        ),
        ("import no_such\n", "tools.py:1:1: this cannot be imported (ModuleNotFoundError: No module named 'no_such')"),
        (
            "import json\njson.loads('{')\n",
            "tools.py:2:1: this cannot be imported (JSONDecodeError: Expecting property",
        ),
        ("from .near import x\n", "tools.py:1:1: this cannot be imported (ImportError: attempted relative import"),
        ("raise SystemExit('bye')\n", "tools.py:1:1: this cannot be imported (SystemExit: bye); correct it"),
        ("x = '\0'\n", "tools.py"),
        ("# -*- coding: nonsense -*-\n", "tools.py"),
        ("(" * 5000, "tools.py"),
    ],
)
def test_an_error_while_importing_is_told_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    before = modules()
    told = refused(write(tmp_path, text), "add_up")
    assert told.startswith(expected)
    assert "this cannot be imported (" in told
    assert modules() == before, "half a module is left behind"


def test_an_error_that_cannot_be_told_is_an_error_all_the_same(tmp_path: Path) -> None:
    text = "class Bad(Exception):\n    def __str__(self):\n        raise ValueError\nraise Bad\n"
    assert refused(write(tmp_path, text)).startswith("tools.py:4:1: this cannot be imported (Bad: <exception str()")


def test_whoever_interrupts_an_import_is_not_held_up(tmp_path: Path) -> None:
    before = modules()
    with pytest.raises(KeyboardInterrupt):
        load_tools(write(tmp_path, "raise KeyboardInterrupt\n"), [])
    assert modules() == before


def test_the_tools_of_two_workers_never_clash(tmp_path: Path) -> None:
    one = load_tools(write(tmp_path / "one", "STATE = []\ndef act(): return (1, STATE)\n"), ["act"])[0]
    two = load_tools(write(tmp_path / "two", "STATE = []\ndef act(): return (2, STATE)\n"), ["act"])[0]
    assert (one()[0], two()[0]) == (1, 2)
    assert one()[1] is not two()[1]
    assert one.__module__ != two.__module__
    assert sys.modules[one.__module__].__file__ == str(tmp_path / "one" / "tools.py")
    assert "tools" not in sys.modules


def test_a_file_is_imported_once_until_it_changes(tmp_path: Path) -> None:
    path = write(tmp_path, "def act(): return 1\n")
    (first,) = load_tools(path, ["act"])
    before = modules()
    assert load_tools(path, ["act"])[0].__wrapped__ is first.__wrapped__  # type: ignore[attr-defined]
    assert modules() == before
    assert load_tools(write(tmp_path, "def act(): return 2\n"), ["act"])[0]() == 2


def test_no_bytecode_is_written_beside_a_worker_and_none_is_believed(tmp_path: Path) -> None:
    path = write(tmp_path, "def act(): return 'written'\n")
    load_tools(path, ["act"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["tools.py"]
    import py_compile  # noqa: PLC0415 - only here

    path.write_text("def act(): return 'planted'\n", encoding="utf-8")
    py_compile.compile(str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("def act(): return 'mine'\n", encoding="utf-8")
    assert load_tools(path, ["act"])[0]() == "mine"


def test_a_file_that_cannot_be_read_is_refused_without_waiting(tmp_path: Path) -> None:
    assert refused(tmp_path / "tools.py").startswith(
        "tools.py: there is no such file; write it, or take `custom_tools`"
    )
    os.mkfifo(tmp_path / "pipe.py")
    assert "it is a pipe, socket or device, no regular file" in refused(tmp_path / "pipe.py")
    huge = write(tmp_path, "#" * 1_000_001)
    assert refused(huge) == "tools.py: this is larger than 1 MB; a file of tools has to be smaller"
