"""`sayso setup`: puts sayso's hook into the settings of a coding agent, and takes it out again.

Tests: tests/cli/gateways/test_setup.py
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from sayso.adapters.coding_agents.clients import CLIENTS
from sayso.adapters.coding_agents.hook_settings import PLACES, HookPlace, with_hook, without_hook
from sayso.adapters.coding_agents.permissions import policy_from_permissions
from sayso.cli.gateways.codex_trust import current_hashes, with_trust
from sayso.cli.main import EXIT_CODES
from sayso.cli.screen import say, short_path, visible
from sayso.cli.times import read_span
from sayso.config.load_policy import load_policy
from sayso.engine import settings
from sayso.errors import ConfigurationError

_BACKUP = ".before-sayso"
_MARGIN_SECONDS = 30.0  # between sayso's own limit and the client's
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class _SetupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Parsed options of the command."""

    client: str
    policy: Path | None
    store: str | None
    hold: float | None
    remove: bool
    anyway: bool
    yes: bool
    import_to: Path | None


@click.command(
    "setup",
    epilog=(f"Example: sayso setup claude --policy ~/sayso.yaml --store ~/sayso.db\n\nEnds with: {EXIT_CODES}."),
)
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="The policy that decides.")
@click.option(
    "--store",
    type=click.Path(),
    metavar="FILE",
    envvar="SAYSO_STORE",
    help="Where people answer: a file, postgresql://… or https://… of a hub; else what SAYSO_STORE names.",
)
@click.option(
    "--hold",
    callback=read_span,
    metavar="TIME",
    help="How long a call waits for its answer; left out, as long as the client usually waits.",
)
@click.option("--remove", is_flag=True, help="Take the hook out again.")
@click.option("--anyway", is_flag=True, help="Also for a client that runs the call if its hook fails.")
@click.option("--yes", is_flag=True, help="Do not ask before the settings are written.")
@click.option(
    "--import",
    "import_to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="First translate the permissions of Claude Code into a new policy file.",
)
def setup(**given: object) -> None:
    """Put sayso before every tool call of a coding agent.

    The change of the client's settings is shown before it is written, the settings are kept beside the new ones, and
    --remove undoes it.
    """
    options = msgspec.convert(given, _SetupOptions, strict=False)
    place = PLACES[options.client]
    file = Path.home() / place.file
    try:
        if options.import_to is not None:
            _import(options.import_to, options.client, file)
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        if options.remove:
            after = without_hook(before, options.client)
        else:
            _check_closed(options, place)
            after = with_hook(before, options.client, _command(options), _hold(options) + _MARGIN_SECONDS)
    except (ValueError, OSError) as error:
        raise click.ClickException(visible(f"{short_path(str(file))}: {error}")) from None
    if after == before:
        say(f"{short_path(str(file))} stays as it is.")
        return
    _show_change(file, before, after)
    if not options.yes and not click.confirm("Write it?"):
        raise click.Abort
    _replace(file, after)
    if options.client == "codex" and not options.remove:
        _trust(options, file)
    say(_last_words(options, place))


def _hold(options: _SetupOptions) -> float:
    return CLIENTS[options.client].hold if options.hold is None else options.hold


def _command(options: _SetupOptions) -> list[str]:
    """Return the command of the hook, with whole paths: a hook runs in the folder in which the agent works."""
    policy = options.policy or options.import_to
    if policy is None or not options.store:
        raise click.UsageError("say which policy decides, and where people answer: --policy FILE --store FILE")
    load_policy(policy)
    store = options.store
    if not settings.is_hub(store) and not settings.is_database(store):
        path = settings.store_file(store)
        if path is None:
            raise ConfigurationError(f"{settings.redact_address(store)} is not a store that two programs can share")
        store = str(path.expanduser().absolute())
    own = ["--policy", str(policy.expanduser().absolute()), "--store", store, "--hold", f"{_hold(options):g}s"]
    # -P: a package of this name in the folder of the project must not be taken for sayso.
    return [sys.executable, "-P", "-m", "sayso", "hook", options.client, *own]


def _check_closed(options: _SetupOptions, place: HookPlace) -> None:
    """Refuse a client that runs a call whose hook has failed, unless that is wanted."""
    if options.anyway:
        return
    title = CLIENTS[options.client].title
    if place.closed_since is None:
        raise click.ClickException(f"{title} cannot be closed: {place.open}. Say --anyway if that will do for you.")
    found = _version(options.client)
    if found is None or found < place.closed_since:
        wanted = ".".join(map(str, place.closed_since))
        is_here = "was not found here" if found is None else f"is {'.'.join(map(str, found))} here"
        raise click.ClickException(
            f"{title} {is_here}, and {wanted} or newer is needed: {place.open}. Say --anyway if that will do for you."
        )


def _version(client: str) -> tuple[int, ...] | None:
    """Return the release of the client that is installed here."""
    program = shutil.which(client)
    if program is None:
        return None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - the client that is set up
        found = _VERSION.search(done.stdout)
        return tuple(map(int, found.groups())) if found else None
    return None


def _show_change(file: Path, before: str, after: str) -> None:
    name = short_path(str(file))
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""):
        colour = {"+": "green", "-": "red"}.get(line[:1])
        say(click.style(visible(line), fg=colour))


def _replace(file: Path, text: str) -> None:
    """Write the file as a whole, with its earlier content kept beside it; without content, delete it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        shutil.copy2(file, file.with_name(file.name + _BACKUP))
    if not text:
        file.unlink()
        return
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:
        new.write(text)
    if file.exists():
        shutil.copymode(file, new.name)
    os.replace(new.name, file)  # noqa: PTH105 - of a name, not of a path


def _trust(options: _SetupOptions, hooks_file: Path) -> None:
    """Have Codex trust the hook, which it skips silently otherwise."""
    program, file = shutil.which("codex"), hooks_file.with_name("config.toml")
    hashes = current_hashes(program, hooks_file, shlex.join(_command(options))) if program else {}
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    try:
        after = with_trust(before, hashes)
    except ValueError as error:
        raise click.ClickException(visible(f"{short_path(str(file))}: {error}")) from None
    if not hashes:
        say(
            "Codex could not be asked for the hash of the hook: start it and trust the hook there, or it is not called."
        )
    elif after != before:
        _show_change(file, before, after)
        if options.yes or click.confirm("Trust it?"):
            _replace(file, after)


def _last_words(options: _SetupOptions, place: HookPlace) -> str:
    title = CLIENTS[options.client].title
    if options.remove:
        return f"{title} asks sayso no more, once it is started anew."
    stays = f" What stays open: {place.open}." if place.closed_since is None else ""
    return f"{title} asks sayso before every call, once it is started anew.{stays} See `sayso doctor`."


def _import(target: Path, client: str, file: Path) -> None:
    """Write a policy of the permissions that Claude Code has."""
    if client != "claude":
        raise click.UsageError("only the permissions of Claude Code can be translated so far")
    if target.exists():
        raise ConfigurationError(f"{target} exists already; name a new file")
    text, left = policy_from_permissions(file.read_text(encoding="utf-8") if file.exists() else "")
    target.write_text(text, encoding="utf-8")
    load_policy(target)
    say(f"{short_path(str(target))} is written. Read it before you rely on it.")
    for each in left:
        say(visible(f"not translated: {each}"))
