#!/usr/bin/env python3
"""Every task of this repository, from a fresh checkout: `python3 dev.py` lists them.

Only the standard library is used here, because this file runs before anything is installed. It finds or
fetches uv, makes a virtual environment that holds exactly what a locked requirement file lists, and runs the
tools inside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

ROOT = Path(__file__).resolve().parent
LOCKS = ROOT / "requirements"
OLDEST_PYTHON = (3, 11)
UV_VERSION = "0.13.7"
VOCABULARY = "llama-index-core==0.14.25"  # carries the tokenizer's vocabulary that AdalFlow would download
GIT_SERVER = "mcp-server-git==2026.10.19"  # an MCP server that many use, which the relay is tested with
PEER = "pydantic-ai-blocking-approval"  # its source distributions carry its tests
PEER_RELEASES = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.7.0", "0.8.0", "0.9.0")
# One test more than there are processors: at any time one of them waits for a process of its own.
SEVERAL_AT_ONCE = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal")
USERS_OF_PYDANTIC_AI = (
    "tests/adapters/pydantic_ai",
    *(f"tests/tools/test_{name}.py" for name in ("attacks", "custom", "scripted", "workers")),
)

# Prefect agrees neither with the notices (Apprise 2) nor with the newest FastAPI, so it is locked and installed apart.
PREFECT_NEEDS = (
    "prefect>=3.7",
    "fastapi<0.129",
    "pydantic-ai-slim>=2.66",
    "hatchling>=1.27",
    "editables>=0.5",
    "hypothesis>=6.130",
    "pytest>=8.4",
    "pytest-timeout>=2.3",
    "sybil>=9.1",
)

# What the tests of a framework need beside it. The frameworks cannot share an environment: they want different releases
# of the same libraries.
ADAPTER_TESTS = (
    "hatchling>=1.27",
    "editables>=0.5",
    "hypothesis>=6.130",
    "mcp>=1.9",
    "pytest>=8.4",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "sybil>=9.1",
)

# What decides, alone: policy, decision, controller and plain functions, without a server, a browser or a framework.
CORE = (
    "tests/core",
    "tests/policy",
    "tests/config",
    "tests/engine/test_controller.py",
    "tests/engine/test_remembered.py",
    "tests/adapters/test_function.py",
    "tests/test_house.py",
    "tests/test_public.py",
    "--ignore=tests/policy/shell/test_bash_fuzz.py",  # starts bash for thousands of lines
)

SBIN = "/usr/sbin:/usr/bin:/usr/local/bin"  # where daemons are, which is not on everybody's PATH
CHROMIUM = ("chromium", "google-chrome")  # the programs that the tests look for, as `SAYSO_CHROMIUM` says another

SETTINGS = {
    "UV_SYSTEM_CERTS": "1",  # else uv fails behind a private certificate authority
    "UV_PYTHON_DOWNLOADS": "never",  # the Python that runs this file is the one to use
    **os.environ,  # what the caller has set wins
}


class TaskError(Exception):
    """A task cannot go on; the message is one sentence for the person at the terminal."""


def say(message: str) -> None:
    """Tell the person what happens now, before the output of the program that does it."""
    print(message, flush=True)


# --- Running programs --------------------------------------------------------------------------------


def run(command: Sequence[str], *, otherwise: str, settings: Mapping[str, str] = SETTINGS) -> None:
    """Run a program in the repository; if it fails, stop with the sentence `otherwise`."""
    if subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode != 0:
        raise TaskError(otherwise)


def uv(*arguments: str, otherwise: str) -> None:
    """Run uv: the one on PATH, else our own copy."""
    run([shutil.which("uv") or own_uv(), *arguments], otherwise=otherwise)


def own_uv() -> str:
    """The copy of uv in .tools, which pip fetches once without touching the Python that runs it."""
    folder = ROOT / ".tools" / f"uv-{UV_VERSION}"
    program = folder / "bin" / "uv"
    if not program.exists():
        say(f"· fetching uv {UV_VERSION}")
        pip_install = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        run(
            [*pip_install, "--target", str(folder), f"uv=={UV_VERSION}"],
            otherwise="There is no uv, and pip could not fetch it: install uv, or see that pip works.",
        )
    return str(program)


# --- Environments ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """A virtual environment with exactly what a requirement file lists, and this checkout of sayso."""

    folder: Path
    requirements: Path

    def run(self, tool: str, *arguments: str, otherwise: str) -> None:
        """Run a tool that is installed here; if it fails, stop with the sentence `otherwise`."""
        run([self.program(tool), *arguments], otherwise=otherwise, settings=self.settings())

    def become(self, tool: str, *arguments: str) -> NoReturn:
        """Turn this process into the tool, so that the terminal and Ctrl-C belong to it alone."""
        os.chdir(ROOT)
        os.execve(self.program(tool), [tool, *arguments], self.settings())

    def program(self, tool: str) -> str:
        """Where a tool of this environment is."""
        return str(self.folder / "bin" / tool)

    def settings(self) -> dict[str, str]:
        """The variables of an activated environment.

        Tests start hundreds of processes: without byte code on the disk, each would compile all that it imports.
        """
        path = os.pathsep.join([str(self.folder / "bin"), SETTINGS.get("PATH", os.defpath)])
        own = {"PATH": path, "VIRTUAL_ENV": str(self.folder), "PYTHONDONTWRITEBYTECODE": ""}
        return {**SETTINGS, **own}

    def prepare(self) -> Environment:
        """Install what the requirement file lists, unless nothing has changed since the last time."""
        stamp = self.folder / "sayso-stamp"
        if not stamp.exists() or stamp.read_text() != self.fingerprint():
            stamp.unlink(missing_ok=True)
            self.install()
            stamp.write_text(self.fingerprint())
        return self

    def fingerprint(self) -> str:
        """A digest of everything that the content of the environment depends on."""
        files = [self.requirements, ROOT / "pyproject.toml"]
        inputs = [sys.version.encode(), str(ROOT).encode(), *(file.read_bytes() for file in files)]
        return hashlib.sha256(b"\0".join(inputs)).hexdigest()

    def install(self) -> None:
        """Make the environment, fill it from the lock, and link sayso into it with the locked build tools."""
        say(f"· installing requirements/{self.requirements.name} into {self.folder.name}")
        here = ["--quiet", "--python", self.program("python")]
        uv(
            *["venv", "--quiet", "--allow-existing", "--python", sys.executable, str(self.folder)],
            otherwise=f"{self.folder.name} could not be made: delete that folder and try again.",
        )
        uv(
            *["pip", "sync", *here, "--require-hashes", str(self.requirements)],
            otherwise=f"{self.requirements.name} could not be installed: is a package index reachable?",
        )
        uv(
            *["pip", "install", *here, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
            otherwise="sayso itself could not be installed: see above.",
        )


# --- Programs that no package index has --------------------------------------------------------------


def need_bubblewrap() -> None:
    """Install what shell lines are confined with, if it is not there."""
    if sys.platform == "linux" and not shutil.which("bwrap"):
        install_package("bubblewrap", "The tests need bubblewrap, which confines shell lines: install it")


def need_strace() -> None:
    """Install what traces the system calls of programs, if it is not there."""
    if sys.platform == "linux" and not shutil.which("strace"):
        install_package("strace", "The profiles of programs are measured with strace: install it")


def need_ps() -> None:
    """Install the program that lists processes where there is no /proc, if it is not there."""
    if not shutil.which("ps"):
        install_package("procps", "The tests need ps: install it")


def need_chromium() -> None:
    """Install the browser in which the page is tested, if there is none."""
    given = SETTINGS.get("SAYSO_CHROMIUM")
    if given and not shutil.which(given):
        raise TaskError(f"SAYSO_CHROMIUM is {given!r}, and there is no such program.")
    if not given and not any(shutil.which(name) for name in CHROMIUM):
        sentence = "The tests need a browser: set SAYSO_CHROMIUM to the program of a Chromium or Chrome, or install one"
        install_package("chromium", sentence)


def need_postgresql() -> None:
    """Install what no wheel has of PostgreSQL: a server that speaks TLS, and the pooler that stands before many."""
    if not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        install_package("postgresql", "The tests need Debian's PostgreSQL, which speaks TLS: install it")
    if not shutil.which("pgbouncer", path=SBIN):
        install_package("pgbouncer", "The tests need PgBouncer: install it")


def install_package(name: str, otherwise: str) -> None:
    """Install a package of Debian as root; whoever is not root is told to, by the sentence `otherwise`."""
    how = f"apt-get install {name}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise TaskError(f"{otherwise}, on Debian by `{how}`.")
    say(f"· installing {name}")
    quietly = {**SETTINGS, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-qq", "update"], otherwise="apt-get could not look up packages: see above.", settings=quietly)
    run([*how.split(), "-qq", "-y"], otherwise=f"`{how}` failed: see above.", settings=quietly)


def need_vocabulary() -> None:
    """Fetch the vocabulary that AdalFlow wants when it is imported; conftest.py finds it here."""
    fetch_package(VOCABULARY, "--no-deps")


def need_git_server() -> None:
    """Fetch the MCP server for git repositories, with its own libraries; the tests of the relay find it here."""
    fetch_package(GIT_SERVER)


def fetch_package(package: str, *options: str) -> None:
    """Install a package into a folder of its own in .tools, unless it is there."""
    folder = ROOT / ".tools" / package.replace("==", "-")
    if not folder.exists():
        say(f"· fetching {package}")
        uv(
            *["pip", "install", "--quiet", *options, "--python", sys.executable, "--target", str(folder), package],
            otherwise=f"{package} could not be fetched: is a package index reachable?",
        )


def need_peer_suites() -> Path:
    """Fetch the source distributions of the library whose tests `suites` runs; return their folder."""
    folder = ROOT / ".tools" / PEER
    for release in PEER_RELEASES:
        if not (folder / f"{PEER.replace('-', '_')}-{release}.tar.gz").exists():
            say(f"· fetching the source of {PEER} {release}")
            pip_download = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
            run(
                [*pip_download, "--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"{PEER}=={release}"],
                otherwise=f"{PEER} {release} could not be fetched: is a package index reachable?",
            )
    return folder


def need_npm_packages(tests: str, folder_name: str) -> None:
    """Install the programs that a folder of tests works with, in the versions that its package.json names."""
    wanted = (ROOT / "tests" / tests / "package.json").read_bytes()
    folder = ROOT / ".tools" / folder_name
    stamp = folder / "sayso-stamp"
    if stamp.exists() and stamp.read_bytes() == wanted:
        return
    if not shutil.which("npm"):
        install_package("npm", "The tests need Node.js and npm, for programs of their world: install both")
    say(f"· installing the npm packages of tests/{tests}/package.json")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_bytes(wanted)
    options = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    run(
        ["npm", "install", "--prefix", str(folder), *options],
        otherwise=f"npm could not install the packages of tests/{tests}/package.json: is a registry reachable?",
    )
    stamp.write_bytes(wanted)


@dataclass(frozen=True)
class Framework:
    """An agent framework with an adapter of its own: its extra, its folder, and what its tests need besides."""

    extra: str
    folder: str  # in src/sayso/adapters and tests/adapters; docs/<extra>.md is its page
    needs: tuple[str, ...] = ()
    oldest: tuple[str, ...] = ()  # the oldest releases that the extra allows

    def environment(self, *, oldest: bool) -> Environment:
        """The environment with the newest releases, or with the oldest."""
        name = f"{self.extra}-oldest" if oldest else self.extra
        return Environment(ROOT / f".venv-{name}", LOCKS / f"{name}.txt")

    def pyright_settings(self, environment: Environment) -> str:
        """Write settings with which pyright checks the adapter and its tests where its framework is installed."""
        sources = [f"../{place}/adapters/{self.folder}" for place in ("src/sayso", "tests")]
        sources += [f"../examples/{example.name}" for example in (ROOT / "examples").glob(f"{self.folder}_agent.py")]
        settings = {
            "include": sources,
            "strict": ["../src"],
            "venvPath": "..",
            "venv": environment.folder.name,
        }
        file = environment.folder / "pyrightconfig.json"
        file.write_text(json.dumps({**settings, "extraPaths": [".."], "pythonVersion": "3.11"}), encoding="utf-8")
        return str(file)

    def paths(self) -> list[str]:
        """The tests, and the page whose examples run."""
        return [f"tests/adapters/{self.folder}", f"docs/{self.extra}.md"]

    def short_paths(self) -> list[str]:
        """The cases that all frameworks share, the holes of this one, and the page: what CI runs."""
        shared = (f"tests/adapters/{self.folder}/test_{name}.py" for name in ("conformance", "holes"))
        return [*(each for each in shared if (ROOT / each).exists()), self.paths()[1]]


FRAMEWORKS = {
    each.extra: each
    for each in (
        Framework(
            "langchain",
            "langchain",
            needs=("deepagents", "langchain-mcp-adapters", "langgraph-checkpoint-sqlite>=3"),
            oldest=("langchain==1.2.13",),
        ),
        Framework("openai-agents", "openai_agents", oldest=("openai-agents==0.23.1",)),
        Framework("google-adk", "google_adk", needs=("google-adk[db,mcp]",), oldest=("google-adk==2.13.0",)),
        Framework(
            "agent-framework",
            "agent_framework",
            needs=("tenacity>=9.1.4",),  # its MCP tools want it
            oldest=("agent-framework-core==1.19.0", "mcp<2"),
        ),
        Framework("crewai", "crewai", oldest=("crewai==1.15.10",)),
        Framework("strands", "strands", oldest=("strands-agents==1.59.0",)),
        Framework("claude-agent", "claude_agent", oldest=("claude-agent-sdk==0.2.177",)),
    )
}

DEVELOPMENT = Environment(ROOT / ".venv", LOCKS / "dev.txt")
OLDER = Environment(ROOT / ".venv-older", LOCKS / "older.txt")
PREFECT = Environment(ROOT / ".venv-prefect", LOCKS / "prefect.txt")
BENCHMARKS = Environment(ROOT / ".venv-bench", LOCKS / "bench.txt")
IMAGE = ROOT / "deploy" / "requirements.txt"  # what is in the container


# --- Checks ------------------------------------------------------------------------------------------


def check(environment: Environment, tool: str, *arguments: str) -> None:
    """Run one check under a heading of its own, and say how long it took."""
    title = " ".join([tool, *arguments])
    say(f"\n── {title} " + "─" * (76 - len(title)))
    start = time.monotonic()
    environment.run(tool, *arguments, otherwise=f"`{title}` failed, so nothing after it was run: see above.")
    say(f"   passed in {time.monotonic() - start:.1f} s")


def check_statically(environment: Environment) -> None:
    """Run every check that does not run the code."""
    check(environment, "ruff", "format", "--check")
    check(environment, "ruff", "check")
    check(environment, "pyright")
    check(environment, "mypy", "tests/typing")
    check(environment, "lint-imports", "--no-logo")


# --- Commands: the first line of a docstring is the help ---------------------------------------------


def demo(arguments: list[str]) -> None:
    """See sayso at work in this terminal."""
    DEVELOPMENT.prepare().become("sayso", "demo", *arguments)


def test(arguments: list[str]) -> None:
    """Run all checks and all tests, as CI does; `test core`: what decides, in a minute; `test -k store`: pytest."""
    if arguments == ["core"]:
        need_vocabulary()  # tests/test_house.py imports AdalFlow
        DEVELOPMENT.prepare().become("pytest", "-q", *CORE, *SEVERAL_AT_ONCE)
    need_bubblewrap()
    need_strace()
    need_ps()
    need_vocabulary()
    need_chromium()
    need_postgresql()
    need_npm_packages("web", "npm")
    need_git_server()
    environment = DEVELOPMENT.prepare()
    if arguments:
        environment.become("pytest", *arguments)
    check_statically(environment)
    check(environment, "pytest", *SEVERAL_AT_ONCE)


def older(arguments: list[str]) -> None:
    """Run the tests that use a framework with its older releases."""
    need_bubblewrap()
    check(OLDER.prepare(), "pytest", *USERS_OF_PYDANTIC_AI, *SEVERAL_AT_ONCE, *arguments)


def adapters(arguments: list[str]) -> None:
    """Run the tests of the frameworks with environments of their own; `adapters langchain`: one; `--short`: as CI."""
    names = [each for each in arguments if each in FRAMEWORKS]
    rest = [each for each in arguments if each not in FRAMEWORKS and each not in {"--oldest", "--short"}]
    for framework in (FRAMEWORKS[name] for name in names or FRAMEWORKS):
        if "--short" in arguments:
            check(framework.environment(oldest=False).prepare(), "pytest", *framework.short_paths(), *SEVERAL_AT_ONCE)
            continue
        oldest = "--oldest" in arguments
        environment = framework.environment(oldest=oldest).prepare()
        if not oldest and not rest:
            check(DEVELOPMENT.prepare(), "pyright", "--project", framework.pyright_settings(environment))
        check(environment, "pytest", *framework.paths(), *SEVERAL_AT_ONCE, *rest)


def clients(arguments: list[str]) -> None:
    """Run the tests with real coding agents, offline, about ten minutes; `clients --short`: Claude Code and Codex."""
    need_npm_packages("clients", "clients")
    is_short = "--short" in arguments
    names = ("claude", "codex") if is_short else ("claude", "codex", "others")
    rest = [each for each in arguments if each != "--short"]
    files = [f"tests/clients/test_{name}.py" for name in names]
    check(DEVELOPMENT.prepare(), "pytest", "--clients", *files, *SEVERAL_AT_ONCE, *rest)


def suites(arguments: list[str]) -> None:
    """Run another library's own tests against sayso; `suites --write`: write their table in the docs anew."""
    if arguments not in ([], ["--write"]):
        raise TaskError("`suites` takes no argument but --write.")
    folder = need_peer_suites()
    DEVELOPMENT.prepare().become("python", "-m", "tests.suites.blocking_approval", str(folder), *arguments)


def harmless(arguments: list[str]) -> None:
    """Measure the profiles of shell programs in a sandbox, all that are installed; `harmless git rg`: these."""
    need_bubblewrap()
    need_strace()
    DEVELOPMENT.prepare().become("python", "-m", "tests.trials", *arguments)


def prefect(arguments: list[str]) -> None:
    """Run the tests that use Prefect, in an environment of its own."""
    check(PREFECT.prepare(), "pytest", "tests/adapters/pydantic_ai/durable/prefect_flows.py", *arguments)


def lint(arguments: list[str]) -> None:
    """Run only the static checks; `lint --fix` first puts right what ruff can put right."""
    if arguments not in ([], ["--fix"]):
        raise TaskError("`lint` takes no argument but --fix.")
    environment = DEVELOPMENT.prepare()
    if arguments:
        environment.run("ruff", "check", "--fix-only", otherwise="ruff could not correct the code: see above.")
        environment.run("ruff", "format", otherwise="ruff could not format the code: see above.")
    check_statically(environment)


def bench(arguments: list[str]) -> None:
    """Measure sayso beside its peers, in an environment of its own; `bench langchain`: an adapter."""
    framework = next((FRAMEWORKS[name] for name in arguments if name in FRAMEWORKS), None)
    if "mcp" in arguments:
        need_npm_packages("web", "npm")
    environment = BENCHMARKS if framework is None else framework.environment(oldest=False)
    environment.prepare().become("python", "-m", "benchmarks", *arguments)


def docs(arguments: list[str]) -> None:
    """Build the documentation into docs/_build; a warning is an error."""
    environment = DEVELOPMENT.prepare()
    environment.run("python", "docs/generate.py", otherwise="docs/generate.py failed: see above.")
    environment.run(
        *["sphinx-build", "-W", "--keep-going", "--quiet", *arguments, "docs", "docs/_build"],
        otherwise="The documentation has errors: see above.",
    )
    say("· the first page is docs/_build/index.html")


def pictures(arguments: list[str]) -> None:
    """Make the pictures of the documentation anew from the real program, into docs/pictures."""
    need_chromium()
    DEVELOPMENT.prepare().run(
        "python", "docs/pictures.py", *arguments, otherwise="There are no new pictures: see above."
    )


def lock(arguments: list[str]) -> None:
    """Write the requirement files anew from pyproject.toml; `lock --upgrade` takes newer versions; `lock langchain`."""
    if arguments and all(each in FRAMEWORKS for each in arguments):
        for name in arguments:
            lock_framework(FRAMEWORKS[name])
        return
    uv("lock", "--python", sys.executable, *arguments, otherwise="pyproject.toml has no solution: see above.")
    export(DEVELOPMENT.requirements, "--extra", "all", "--group", "dev", "--group", "docs")
    export(OLDER.requirements, "--group", "older")
    compile_apart(PREFECT, PREFECT_NEEDS)
    for framework in FRAMEWORKS.values():
        lock_framework(framework)
    export(BENCHMARKS.requirements, "--extra", "server-fast", "--group", "bench")
    extras = ("cli", "server-fast", "postgres", "notify", "oidc")
    export(IMAGE, *(word for extra in extras for word in ("--extra", extra)), "--group", "build")


def export(target: Path, *selection: str) -> None:
    """Write the part of the lock that one environment needs, with hashes and without addresses."""
    form = ["--frozen", "--quiet", "--no-header", "--no-emit-project", "--no-default-groups"]
    uv(
        *["export", *form, *selection, "--python", sys.executable, "--output-file", str(target)],
        otherwise=f"{target.name} could not be written: see above.",
    )
    check_portable(target)


def check_portable(target: Path) -> None:
    """Stop where a written requirement file holds what belongs to this machine alone."""
    if re.search(r"://|^-|(^|\s)/", target.read_text(), flags=re.MULTILINE):
        raise TaskError(f"{target.name} names an address, an option or a path of this machine: do not commit it.")
    say(f"· {target.name} is written")


def lock_framework(framework: Framework) -> None:
    """Write the requirement files of a framework, with its newest and with its oldest releases."""
    for oldest in (False, True):
        needs = (*ADAPTER_TESTS, *framework.needs, *(framework.oldest if oldest else ()))
        compile_apart(framework.environment(oldest=oldest), needs, extra=framework.extra)


def compile_apart(environment: Environment, needs: Sequence[str], *, extra: str = "") -> None:
    """Write a requirement file that nothing else in the lock has to agree with."""
    form = ["--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate", "--python", sys.executable]
    with tempfile.NamedTemporaryFile("w", suffix=".in") as wanted:
        wanted.write("\n".join(needs))
        wanted.flush()
        uv(
            *["pip", "compile", *form, *(["--extra", extra] if extra else []), "pyproject.toml", wanted.name],
            *["--output-file", str(environment.requirements)],
            otherwise=f"{environment.requirements.name} could not be written: see above.",
        )
    check_portable(environment.requirements)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "demo": demo,
    "test": test,
    "older": older,
    "adapters": adapters,
    "clients": clients,
    "suites": suites,
    "harmless": harmless,
    "prefect": prefect,
    "lint": lint,
    "bench": bench,
    "docs": docs,
    "pictures": pictures,
    "lock": lock,
}

HELP = """\
usage: python3 dev.py COMMAND [ARGUMENT ...]

{commands}

Start with `demo`. Before you hand in a change, `test` must pass. Further arguments go to the tool behind
the command. The first run installs what is needed into .venv and .tools in this folder;
delete them to start afresh.
"""


def show_help() -> None:
    """Print what this file can do, from the docstrings of the commands."""
    lines = (f"  {name:8} {(command.__doc__ or '').splitlines()[0]}" for name, command in COMMANDS.items())
    print(HELP.format(commands="\n".join(lines)), end="")


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    name = arguments[0] if arguments else "help"
    if sys.version_info < OLDEST_PYTHON:
        raise TaskError(f"sayso needs Python 3.11 or newer, and this is {sys.version.split()[0]}.")
    if name in COMMANDS:
        COMMANDS[name](arguments[1:])
    elif name in {"help", "-h", "--help"}:
        show_help()
    else:
        raise TaskError(f"There is no command {name!r}: choose one of {', '.join(COMMANDS)}.")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TaskError as error:
        sys.exit(f"dev.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
