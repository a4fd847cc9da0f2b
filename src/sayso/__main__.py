"""Entry point of the program `sayso`, and of `python -m sayso`.

Tests: tests/cli/test_processes.py
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
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


if __name__ == "__main__":
    main()
