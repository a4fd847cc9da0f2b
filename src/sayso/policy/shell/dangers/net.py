"""Dangers of network clients and of administration tools: curl, wget, ssh, kubectl, gh, systemctl.

Tests: tests/policy/shell/test_dangers.py
"""

from __future__ import annotations

import re

from sayso.policy.shell.dangers.options import Danger, Harmless, by_options, find_option, unlisted_reason
from sayso.policy.shell.wrappers import Argv

_CURL = Harmless(
    "-s --silent -S --show-error -f --fail --fail-with-body -L --location -i --include -I --head -v --verbose "
    "-m= --max-time= --connect-timeout= --retry= --retry-delay= --retry-max-time= --max-redirs= --compressed -4 --ipv4 "
    "-6 --ipv6 -# --progress-bar --no-progress-meter -A= --user-agent= -e= --referer= -H= --header= --http1.1 --http2 "
    "-N --no-buffer -g --globoff -V --version -o= --output= -w= --write-out=",
    {
        # A value that begins with `@` is read from a file, and a header sends it.
        **dict.fromkeys(("-H", "--header", "-A", "--user-agent", "-e", "--referer"), r"[^@].*"),
        **dict.fromkeys(("-w", "--write-out"), r"(?!@)(?!.*%output)(?s:.*)"),
        **dict.fromkeys(("-o", "--output"), "/dev/null|-"),
    },
)
_WGET = Harmless(
    "-q --quiet -v --verbose -S --server-response --spider -O= --output-document= -T= --timeout= -t= --tries= "
    "--max-redirect= -U= --user-agent= --header= -4 -6 -V --version -h --help",
    dict.fromkeys(("-O", "--output-document"), "/dev/null|-"),
)
_SSH = Harmless("-q -v -T -t -n -x -a -C -4 -6 -p= -l= -i= -V")
# Other protocols carry arbitrary bytes to any listener; `{}` and `[]` can spell them.
_NOT_WEB = re.compile(r"(?!https?://)(?:[^/]*:/|.*[{\[])", re.IGNORECASE | re.DOTALL)
_PLAIN_WORDS = re.compile(r"[\w./:,@%+=-]+(?: +[\w./:,@%+=-]+)*")
_COPIES = by_options("changes what runs on this machine or the other", short="SoFJDXb", valued="ciPlB")


def _curl(args: Argv) -> str | None:
    """Allow only to fetch something by HTTP and show it."""
    parsed = _CURL.read(args)
    other = next((word for word in parsed.operands if _NOT_WEB.match(word)), None)
    return unlisted_reason("curl", parsed.unknown or other)


def _wget(args: Argv) -> str | None:
    """Allow only to fetch something and show it: by default wget writes a file, under a name from outside."""
    parsed = _WGET.read(args)
    shows = parsed.names & {"--spider", "-O", "--output-document", "-V", "--version", "-h", "--help"}
    return unlisted_reason("wget", parsed.unknown) or (None if shows else "it writes a file, under a name from outside")


def ssh_command(args: Argv) -> Argv:
    """Return the remote command, if it has only plain words."""
    return tuple(" ".join(_SSH.read(args, ordered=True).operands[1:]).split())


def _ssh(args: Argv) -> str | None:
    """Allow only plain remote commands, with options that change nothing on this machine."""
    parsed = _SSH.read(args, ordered=True)
    behind = parsed.operands[1:]
    unknown = parsed.unknown or next((word for word in behind[:1] if word.startswith("-")), None)
    if unknown:
        return unlisted_reason("ssh", unknown)
    command = " ".join(behind)
    plain = not command or (_PLAIN_WORDS.fullmatch(command) and "=" not in command.split()[0])
    return None if plain else "the shell of the other machine reads more in it than plain words"


def _kubectl(args: Argv) -> str | None:
    follows = args[:1] in {("logs",), ("log",)}  # where `-f` is no file
    word = find_option(
        args,
        short="sk" if follows else "skf",
        long=(
            "kubeconfig", "server", "token", "cache-dir", "profile", "profile-output", "raw", "kustomize", "filename",
            "as", "as-group", "as-uid", "user", "username", "password", "client-key", "client-certificate",
            "certificate-authority", "insecure-skip-tls-verify", "tls-server-name", "log-file", "log-dir",
        ),
        valued="nlLoc",
    )  # fmt: skip
    return f"{word} changes whom kubectl talks to, what it reads or where it writes" if word else None


def _gh(args: Argv) -> str | None:
    word = "--" if "--" in args else find_option(args, short="w", long=("web",), valued="RqtLslaABHSbjFTm")
    if args[:1] == ("api",):
        word = word or find_option(
            args, short="XfF", long=("method", "field", "raw-field", "input", "hostname"), valued="qtHp"
        )
    return f"{word} starts another program, or sends something" if word else None


def _systemctl(args: Argv) -> str | None:
    word = find_option(args, short="HM", long=("host", "machine", "root", "image"), valued="tpnos")
    return f"{word} reaches another machine or another system" if word else None


_APT = by_options("changes what apt runs", short="oc", long="option config-file with-source", valued="ta")
NET: dict[str, Danger] = {
    "curl": _curl,
    "wget": _wget,
    "ssh": _ssh,
    "scp": _COPIES,
    "sftp": _COPIES,
    "rsync": by_options(
        "runs another program, or writes elsewhere",
        short="eM",
        long="rsh rsync-path remote-option log-file write-batch only-write-batch daemon config",
        valued="fTB",
    ),
    "kubectl": _kubectl,
    "gh": _gh,
    "systemctl": _systemctl,
    "apt": _APT,
    "apt-get": _APT,
    "apt-cache": _APT,
    "dpkg": by_options(
        "runs a program, or works on another system",
        long="pre-invoke post-invoke status-logger log root instdir admindir",
    ),
    "rpm": by_options(
        "runs a program, or works on another system",
        short="ED",
        long="eval define macros rcfile pipe dbpath root load undefine",
    ),
    "journalctl": by_options(
        "deletes or writes what is logged",
        long="vacuum-size vacuum-time vacuum-files rotate flush sync relinquish-var smart-relinquish-var setup-keys "
        "update-catalog cursor-file",
    ),
}
