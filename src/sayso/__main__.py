"""Entry point of the program `sayso`, and of `python -m sayso`.

Tests: tests/cli/test_processes.py
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command line; a hook that fails ends as coding agents expect of one that refuses."""
    if sys.argv[1:2] == ["hook"]:
        _run_as_hook()
    else:
        _run()


def _run() -> None:
    """Run the command line; if click is missing, exit with a sentence that says so."""
    if sys.path and sys.path[0] in {"", str(Path.cwd())}:
        del sys.path[0]  # with `python -m`: do not import modules that an agent has written into the current folder
    try:
        from sayso.cli.main import run  # noqa: PLC0415 - a missing extra is reported below

        run()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("sayso: the command line needs click; install it with `pip install 'sayso[cli]'`")
    except KeyboardInterrupt:
        sys.exit(130)


def _run_as_hook() -> None:
    """Run the command line as a hook: most coding agents run the call unless it ends with 2 and a sentence."""
    try:
        _run()
    except SystemExit as end:
        if not end.code:
            raise
        sys.stderr.write(f"{end.code if isinstance(end.code, str) else 'sayso: the call must not run'}\n")
    except BaseException as error:  # noqa: BLE001 - as above
        sys.stderr.write(f"sayso: the hook has failed ({type(error).__name__}: {error}), so the call must not run\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
