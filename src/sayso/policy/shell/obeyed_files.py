"""Obeyed files: the file in its folder that a program runs, so that writing it changes what an allowed line does.

These files are ordinary work and stay writable, unlike the protected names; `sayso check` warns where rules and zones
allow both unasked.

Tests: tests/cli/test_obeyed_files.py
"""

from __future__ import annotations

import re

from sayso.policy.shell.proof.runners import innermost_named
from sayso.policy.shell.wrappers import SHELLS, Argv, name_of

# One telling file for each beginning of a command; zones judge its other names alike.
_OBEYED: dict[str, str] = {
    "Makefile": "make, gmake",
    "CMakeLists.txt": "cmake",
    "build.ninja": "ninja",
    "meson.build": "meson",
    "SConstruct": "scons",
    "BUILD.bazel": "bazel, bazelisk",
    "justfile": "just",
    "Taskfile.yml": "task, go-task",
    "magefile.go": "mage",
    "Earthfile": "earthly",
    "build.xml": "ant",
    "pom.xml": "mvn, mvnw, mvnd",
    "build.gradle": "gradle, gradlew",
    "build.sbt": "sbt",
    "project.clj": "lein",
    "mix.exs": "mix",
    "rebar.config": "rebar3",
    "Rakefile": "rake",
    "Gemfile": "bundle install, bundle update, bundle exec",
    "build.rs": (
        "cargo build, cargo b, cargo check, cargo c, cargo test, cargo t, cargo run, cargo r, cargo clippy, "
        "cargo bench, cargo doc, cargo install, cargo nextest, cargo package, cargo publish, cargo fix"
    ),
    "main_test.go": "go test",
    "main.go": "go run, go generate",
    "Package.swift": "swift build, swift test, swift run, swift package",
    "Directory.Build.props": "dotnet build, dotnet test, dotnet run, dotnet restore, dotnet publish, msbuild",
    "build.zig": "zig build",
    "Setup.hs": "cabal, stack",
    "dune": "dune",
    "composer.json": "composer install, composer update, composer require, composer run",
    "package.json": (
        "npm test, npm t, npm run, npm run-script, npm start, npm stop, npm restart, npm install, npm i, npm ci, "
        "npm rebuild, npm pack, npm publish, npm version, npm link, yarn, pnpm, bun test, bun run, bun install, turbo, "
        "lerna, lint-staged"
    ),
    "deno.json": "deno task, deno test",
    "project.json": "nx",
    "eslint.config.js": "eslint",
    "prettier.config.js": "prettier",
    "stylelint.config.js": "stylelint",
    "commitlint.config.js": "commitlint",
    "jest.config.js": "jest",
    "vitest.config.ts": "vitest",
    ".mocharc.js": "mocha",
    "karma.conf.js": "karma",
    "cypress.config.js": "cypress",
    "playwright.config.ts": "playwright",
    "vite.config.ts": "vite",
    "webpack.config.js": "webpack",
    "rollup.config.js": "rollup",
    "next.config.js": "next",
    "nuxt.config.ts": "nuxt",
    "astro.config.mjs": "astro",
    "angular.json": "ng",
    "babel.config.js": "babel",
    "gulpfile.js": "gulp",
    "Gruntfile.js": "grunt",
    "tailwind.config.js": "tailwindcss",
    "postcss.config.js": "postcss",
    "conftest.py": "pytest, py.test",
    "test_main.py": "unittest",
    "tox.ini": "tox",
    "noxfile.py": "nox",
    "mypy.ini": "mypy, dmypy",
    ".pylintrc": "pylint",
    "tasks.py": "invoke, inv",
    "fabfile.py": "fab",
    "conf.py": "sphinx-build",
    "mkdocs.yml": "mkdocs",
    "features/environment.py": "behave",
    "locustfile.py": "locust",
    "gunicorn.conf.py": "gunicorn",
    "alembic.ini": "alembic",
    "setup.py": "pip install, pip3 install, uv sync, uv run, uv build, uv pip install, poetry install, poetry build",
    ".rspec": "rspec",
    ".rubocop.yml": "rubocop",
    "phpunit.xml": "phpunit",
    "phpstan.neon": "phpstan",
    ".php-cs-fixer.php": "php-cs-fixer",
    "t/main.t": "prove",
    "main.tf": "terraform init, terraform plan, terraform apply, tofu init, tofu plan, tofu apply",
    "Pulumi.yaml": "pulumi",
    "cdk.json": "cdk",
    "serverless.yml": "serverless",
    "ansible.cfg": "ansible, ansible-playbook",
    "Vagrantfile": "vagrant",
    "skaffold.yaml": "skaffold",
    "Tiltfile": "tilt",
    "Dockerfile": "docker build, docker buildx, podman build, buildah build",
    "compose.yaml": "docker compose, docker-compose, podman compose",
    ".github/workflows/main.yml": "act",
    "flake.nix": "nix build, nix run, nix develop, nix flake",
    "shell.nix": "nix-shell",
    "devbox.json": "devbox",
}
_RUNS_SCRIPTS = SHELLS | {
    *("python", "pypy", "node", "nodejs", "bun", "perl", "ruby", "php", "lua", "luajit", "tclsh", "Rscript", "julia"),
    *("pwsh", "source", "."),
}
_RUNS_NOTHING = frozenset({"--version", "--help", "-h", "-V", "help", "version"})
_VERSION = re.compile(r"[\d.]+$")
_SCRIPT = re.compile(r"(?:\./)?(\w[\w./-]*)")


def _by_program() -> dict[str, list[tuple[Argv, str]]]:
    """Return the beginnings of commands for each program, with the file."""
    programs: dict[str, list[tuple[Argv, str]]] = {}
    for file, commands in _OBEYED.items():
        for words in (tuple(each.split()) for each in commands.split(", ")):
            programs.setdefault(words[0], []).append((words, file))
    return programs


_PROGRAMS = _by_program()


def obeyed_file(pattern: Argv) -> str | None:
    """Return a file, relative to the folder of a line, that commands with this prefix run; None if none is known."""
    if not _RUNS_NOTHING.isdisjoint(pattern):
        return None
    named = innermost_named(pattern)
    return _script(pattern) or _by_table(named) or _module(pattern, named) or _by_table(pattern)


def _script(pattern: Argv) -> str | None:
    """Return the script that a pattern names itself: `./run.sh`, `python build.py`."""
    runs = _VERSION.sub("", name_of(pattern)) in _RUNS_SCRIPTS or pattern[0] == "."
    named = pattern[0] if "/" in pattern[0] else pattern[1] if runs and len(pattern) > 1 else ""
    script = _SCRIPT.fullmatch(named)
    return script[1] if script else None


def _module(pattern: Argv, named: Argv) -> str | None:
    """Return the file that stands in for a module: `python -m json.tool` looks for `json.py` in the folder first."""
    is_python = _VERSION.sub("", name_of(pattern)) in {"python", "pypy"}
    return f"{named[0].partition('.')[0]}.py" if is_python and named != pattern else None


def _by_table(pattern: Argv) -> str | None:
    """Return the file of the first beginning that fits, as far as both go: `npm` allows `npm test` too."""
    known = _PROGRAMS.get(name_of(pattern), []) if pattern else []
    pairs = ((zip(words[1:], pattern[1:], strict=False), file) for words, file in known)
    return next((file for both, file in pairs if all(a == b for a, b in both)), None)
