"""Dangers of developer tools (pytest, npm, make, go, pip …): options that load other code, or write something.

Tests: tests/policy/shell/test_dangers.py
"""

from __future__ import annotations

import re

from sayso.policy.shell.dangers.options import (
    Danger,
    Harmless,
    by_options,
    find_option,
    from_file,
    operands,
    unlisted_reason,
    with_one_dash,
)
from sayso.policy.shell.wrappers import Argv, word_set

# Plug-ins add any number of options, so the known harmless ones are listed.
_PYTEST = Harmless(
    "-q --quiet -v --verbose -s -x --exitfirst -l --showlocals --no-showlocals -h --help -V --version -k= -m= -r= -n= "
    "-p= -W= --pythonwarnings= --maxfail= --tb= --capture= --color= --durations= --durations-min= --lf --last-failed "
    "--ff --failed-first --nf --new-first --sw --stepwise --sw-skip --stepwise-skip --co --collect-only --collectonly "
    "--no-header --no-summary --disable-warnings --disable-pytest-warnings --strict --strict-markers --strict-config "
    "--fixtures --fixtures-per-test --markers --setup-show --setup-plan --setup-only --full-trace --runxfail "
    "--doctest-modules --ignore= --ignore-glob= --deselect= --show-capture= --log-level= --log-cli-level= --verbosity= "
    "--numprocesses= --dist= --timeout= --reruns= --reruns-delay= --cov? --cov-report= --cov-branch --no-cov "
    "--cov-fail-under= --no-cov-on-fail --cov-append --asyncio-mode= --randomly-seed= --code-highlight=",
    {
        "-p": r"no:[\w.-]+",
        # The last field of a filter is a class, and a dot in it names a module to load.
        "-W": r"[a-z]+(?::[^:]*(?::[A-Za-z]*)?)?",
        "--pythonwarnings": r"[a-z]+(?::[^:]*(?::[A-Za-z]*)?)?",
        "--cov-report": r"(?:term(?:-missing)?(?::skip-covered)?)?",
        "--dist": r"[a-z]+",
    },
)
_PYLINT = Harmless(
    "-d= --disable= -e= --enable= -E --errors-only -r= --reports= -s= --score= -j= --jobs= -v --verbose -h --help "
    "--version --fail-under= --fail-on= --max-line-length= --recursive= --ignore= --ignore-paths= --ignore-patterns= "
    "--msg-template= -f= --output-format= --list-msgs --help-msg= --exit-zero --persistent= --py-version=",
    dict.fromkeys(("-f", "--output-format"), "text|colorized|parseable|json2?|github|msvs"),
)
_ESLINT = Harmless(
    "--ext= --quiet --max-warnings= --color --no-color --debug -h --help -v --version --ignore-pattern= --no-ignore "
    "--stdin --stdin-filename= --rule= --global= --no-inline-config --report-unused-disable-directives "
    "--no-error-on-unmatched-pattern --no-warn-ignored --stats --exit-on-fatal-error --pass-on-no-patterns --cache "
    "--env-info --print-config= -f= --format=",
    dict.fromkeys(("-f", "--format"), "stylish|json|html|json-with-metadata"),
)
_PRETTIER = Harmless(
    "-c --check -l --list-different --log-level= --loglevel= --color --no-color --ignore-path= --parser= -u "
    "--ignore-unknown --no-config --no-editorconfig --print-width= --tab-width= --use-tabs --no-semi --single-quote "
    "--jsx-single-quote --trailing-comma= --end-of-line= --prose-wrap= --arrow-parens= --no-bracket-spacing "
    "--stdin-filepath= --find-config-path= --file-info= --support-info --with-node-modules --version -v --help -h "
    "--no-error-on-unmatched-pattern",
    {"--parser": r"[a-z0-9-]+"},
)
_TSC = word_set(
    "noemit skiplibcheck strict pretty p project listfiles listfilesonly watch w target t module m lib jsx "
    "moduleresolution esmoduleinterop allowjs checkjs nounusedlocals nounusedparameters noimplicitany "
    "noimplicitreturns noimplicitoverride noerrortruncation strictnullchecks traceresolution diagnostics "
    "extendeddiagnostics explainfiles showconfig resolvejsonmodule types isolatedmodules "
    "forceconsistentcasinginfilenames"
)
_TSC_TELLS = frozenset({"-v", "--version", "-h", "--help", "--all", "--showConfig"})
_GO = word_set(
    "v x n json run skip bench benchmem benchtime count short timeout race tags parallel p cpu cover covermode "
    "coverpkg failfast list mod m deps test e f find compiled buildvcs trimpath all u src cmd fullpath shuffle vet "
    "diff h help versions retracted"
)
_MAKE_FLAGS = re.compile(
    r"-[knsBqi]*(?:j\d*)?|--(?:jobs(?:=\d+)?|keep-going|silent|quiet|dry-run|no-print-directory|always-make|question)"
)
_MAKE_JOBS = re.compile(r"-[knsBqi]*j|--jobs")
_NPM = (
    "script-shell", "node-options", "prefix", "userconfig", "globalconfig", "location", "workspace", "shell",
    "logs-dir", "cache", "global", "registry", "proxy", "https-proxy", "editor", "viewer", "browser", "git", "call",
    "package", "init-module", "cafile", "dir",
)  # fmt: skip


def _npm(args: Argv) -> str | None:
    # npm accepts one dash, two or three, and any unambiguous abbreviation; `-s` alone means silent.
    names = [(each, each.lstrip("-").partition("=")[0]) for each in args if each.startswith("-") and each != "-s"]
    hits = (each for each, name in names if name == "C" or (name and any(known.startswith(name) for known in _NPM)))
    word = next(hits, None)
    return f"{word} changes what npm runs, or where it sends or writes" if word else None


def _make(args: Argv) -> str | None:
    # `-j 4` is two words, of which the second is no target.
    pairs = zip(("", *args), args, strict=False)
    named = operands(tuple(each for before, each in pairs if not (each.isdigit() and _MAKE_JOBS.fullmatch(before))))
    if len(named) > 1:
        return f"make is given more than one target ({named[1]})"
    odd = (each for each in args if ("=" in each or each.startswith("-")) and not _MAKE_FLAGS.fullmatch(each))
    word = next(odd, None)
    return f"{word} changes what make runs" if word else None


def _go(args: Argv) -> str | None:
    word = with_one_dash(args, _GO)
    if args[:1] == ("env",):
        word = word or next((each for each in args if each.lstrip("-") in {"u", "w"}), None)
    if args[:1] == ("test",):
        word = word or next((each for each in args if each.lstrip("-") in {"f", "u"}), None)
    return unlisted_reason("go", word)


def _tsc(args: Argv) -> str | None:
    """Allow only to check types."""
    if len(args) == 1 and args[0] in _TSC_TELLS:
        return None
    lower = [each.lower() for each in args]
    checks = [at for at, each in enumerate(lower) if each in {"-noemit", "--noemit"}]
    if not checks or any(lower[at + 1 : at + 2] in (["false"], ["null"]) for at in checks):
        return "tsc writes what it compiles"
    return unlisted_reason("tsc", with_one_dash(args, _TSC) or from_file(args))


def _pip(args: Argv) -> str | None:
    if args[:1] == ("config",) and args[1:2] not in {("list",), ("get",), ("debug",)}:
        return "it may change where pip takes packages from"
    short = "" if args[:1] == ("show",) else "itfC"  # `pip show -f` lists files
    word = find_option(args, short=short, long=_PIP, valued="rce", spared=("--pre",))
    return f"{word} writes a file, or changes where pip takes packages from and what it runs" if word else None


_PIP = (
    "log", "cache-dir", "index-url", "extra-index-url", "proxy", "cert", "client-cert", "python", "target", "prefix",
    "root", "src", "find-links", "trusted-host", "config-settings", "global-option", "install-option", "build-option",
    "report", "dest", "wheel-dir", "output", "keyring-provider",
)  # fmt: skip
_BINUTILS = by_options("loads other code", long="plugin", files=True)
_TYPES = by_options(
    "runs another program, or writes a file",
    short="pv",
    long="pythonpath createstub project venvpath venv-path writebaseline baselinefile",
)
CODE: dict[str, Danger] = {
    "pytest": _PYTEST.as_danger("pytest"),
    "pylint": _PYLINT.as_danger("pylint"),
    "eslint": _ESLINT.as_danger("eslint"),
    "prettier": _PRETTIER.as_danger("prettier"),
    "tsc": _tsc,
    "vue-tsc": _tsc,
    "go": _go,
    "make": _make,
    "npm": _npm,
    "pnpm": _npm,
    "ruff": by_options(
        "changes files, or what ruff does",
        short="o",
        long="fix fix-only unsafe-fixes add-noqa add-ignore output-file config cache-dir",
        files=True,
    ),
    "pip": _pip,
    "pyright": _TYPES,
    "basedpyright": _TYPES,
    "uv": by_options(
        "changes what uv runs, or where it writes",
        short="ifpCo",
        long="index-url extra-index-url default-index index find-links python config-file cache-dir directory project "
        "target prefix allow-insecure-host keyring-provider config-setting output-file script",
        valued="rPce",
    ),
    "mypy": by_options(
        "runs another program, or writes a file",
        long="python-executable config-file junit-xml install-types cache-dir custom-typeshed-dir "
        "custom-typing-module shadow-file cache-map any-exprs-report cobertura-xml-report html-report linecount-report "
        "linecoverage-report lineprecision-report txt-report xml-report xslt-html-report xslt-txt-report "
        "dump-build-stats timing-stats line-checking-stats pdb",
        files=True,
    ),
    "flake8": by_options(
        "writes a file, or loads other code", long="output-file tee config append-config enable-extensions bug-report"
    ),
    "cargo": by_options(
        "changes what is built or run",
        short="CZ",
        long="config manifest-path target-dir logfile lockfile-path out-dir artifact-dir fix open git registry index",
        valued="DAWFpj",
    ),
    **dict.fromkeys(("nm", "objdump", "ar", "ranlib", "size", "strings", "readelf", "gcc-nm", "gcc-ar"), _BINUTILS),
}
