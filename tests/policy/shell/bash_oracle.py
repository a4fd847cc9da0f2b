"""What the real bash makes of a script: which commands it would run, and which files it would touch.

No program is found in this bash and no builtin is left, so that every command ends in the handler for commands that
do not exist, which writes down what it was given. A name with a slash in it never gets there: bash looks for that
file itself, and in an empty folder the command fails without a trace. A script that could start a real program in this
way is refused.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

Argv = tuple[str, ...]

BASH = shutil.which("bash")

_NOBODY = 65534
_CONTENT = b"content\n"
_BATCH = 64
_LIMIT = 2.0  # seconds for a script alone; one of many may on average take the share
_SHARE = 0.1
_MEMORY = "/dev/shm"  # noqa: S108 - the folder in it is made by mkdtemp
_QUOTING = re.compile(r"['\"\\\n]")
_REAL_PROGRAM = re.compile(r"/s?bin/")
_SYNTAX_ERRORS = (b"syntax error", b"unexpected EOF")
_ENVIRONMENT = {"PATH": "/nonexistent", "HOME": "/home-of-the-oracle", "LC_ALL": "C.UTF-8"}

# Every process keeps a copy of descriptor 99, the pipe to Python, which therefore ends when the last of them ends.
# The handler needs `printf`, and `unset` to uncover it: both are hidden behind functions, which a shell in POSIX mode
# passes over when it looks for `unset`. Everything else that it does is syntax. Its record is one line, so that bash,
# whose output is line-buffered, writes it in one piece: `\1a` stands for `\1`, and `\1b` for a newline.
_DRIVER = r"""
exec 99>&1 >/dev/null 3>&1 4>&1 5>&1 6>&1 7>&1 8>&1 9>&1
ulimit -c 0
ulimit -f 1024
ulimit -t 5
FUNCNEST=50
command_not_found_handle() {
    POSIXLY_CORRECT=1
    unset -f printf
    oracle_words=("${@//$'\1'/$'\1a'}")
    printf '\0%s' "${oracle_words[@]//$'\n'/$'\1b'}" $'\n' >>"$oracle_record"
    printf x
    printf x >&2
    [[ $oracle_status == 0 ]]
}
printf() ( command_not_found_handle printf "$@" )
unset() ( command_not_found_handle unset "$@" )
oracle_builtins=" $(compgen -b) "
oracle_builtins=${oracle_builtins//$'\n'/ }
oracle_builtins=${oracle_builtins/ printf / }
oracle_builtins=${oracle_builtins/ unset / }
oracle_root=$1
oracle_statuses=$2
shift 2
oracle_number=0
for oracle_script; do
    for oracle_status in $oracle_statuses; do
        oracle_record=$oracle_root/$oracle_number/$oracle_status.argv
        (
            cd "$oracle_root/$oracle_number/$oracle_status" || exit
            set --
            eval "enable -n $oracle_builtins"$'\n'"$oracle_script"
        ) 2>"$oracle_root/$oracle_number/$oracle_status.err"
    done
    ((++oracle_number))
done
"""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a script ran when every command of it succeeded, and when every one failed; and the files it touched."""

    argvs_when_true: list[Argv]
    argvs_when_false: list[Argv]
    files: list[str]
    syntax_error: bool


def observe(scripts: Sequence[str]) -> list[Observation]:
    """Run every script twice, each time in a new folder with one file `f` in it.

    A script that does not end within two seconds is stopped, and observed up to there.
    """
    for script in scripts:
        if _REAL_PROGRAM.search(_QUOTING.sub("", script)):
            raise ValueError(f"{script!r} could start a real program")
    batches = (scripts[start : start + _BATCH] for start in range(0, len(scripts), _BATCH))
    return list(chain.from_iterable(map(_observe_batch, batches)))


def counted(argvs: Iterable[Argv]) -> Counter[Argv]:
    """Return how often each command ran: those of pipelines and of background jobs run in no order."""
    return Counter(argvs)


def _observe_batch(scripts: Sequence[str]) -> list[Observation]:
    with _folders(len(scripts)) as root:
        if _drive(root, "0 1", scripts, _LIMIT + _SHARE * len(scripts)):
            return [_read(root / str(number)) for number in range(len(scripts))]
    return [_observe_alone(script) for script in scripts]


def _observe_alone(script: str) -> Observation:
    """Run a script that may never end, so that it is stopped alone, and neither time by the other's fault."""
    with _folders(1) as root:
        for status in ("0", "1"):
            _drive(root, status, [script], _LIMIT)
        return _read(root / "0")


@contextmanager
def _folders(number: int) -> Generator[Path]:
    """Make two folders for each of this many scripts; in memory, where there is such a place."""
    root = Path(tempfile.mkdtemp(prefix="sayso-oracle-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
    try:
        _own(root)
        for each in range(number):
            _prepare(root / str(each))
        yield root
    finally:
        shutil.rmtree(root)


def _prepare(place: Path) -> None:
    place.mkdir()
    _own(place)
    for folder in (place / "0", place / "1"):
        folder.mkdir()
        _own(folder)
        (folder / "f").write_bytes(_CONTENT)
        _own(folder / "f")


def _own(path: Path) -> None:
    """Hand a file to the user who runs the scripts: never root, who could write anywhere."""
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)


def _drive(root: Path, statuses: str, scripts: Sequence[str], limit: float) -> bool:
    """Run scripts in one bash, their commands ending with these statuses; return whether all ended in time."""
    assert BASH is not None, "there is no bash here: install Debian's `bash`, which the lexer is compared with"
    user = _NOBODY if os.geteuid() == 0 else None
    with subprocess.Popen(
        [BASH, "--noprofile", "--norc", "-c", _DRIVER, "bash", str(root), statuses, *scripts],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_ENVIRONMENT,
        cwd=root,
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    ) as process:
        try:
            process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False
    return True


def _read(place: Path) -> Observation:
    errors = b"".join(file.read_bytes() for file in place.glob("*.err"))
    return Observation(
        argvs_when_true=list(_argvs(place / "0.argv")),
        argvs_when_false=list(_argvs(place / "1.argv")),
        files=sorted({*_touched(place / "0"), *_touched(place / "1")}),
        syntax_error=any(each in errors for each in _SYNTAX_ERRORS),
    )


def _argvs(record: Path) -> Iterator[Argv]:
    if record.exists():
        for line in record.read_bytes().split(b"\n")[:-1]:
            yield tuple(_word(each) for each in line.split(b"\0")[1:-1])


def _word(written: bytes) -> str:
    return os.fsdecode(written.replace(b"\1b", b"\n").replace(b"\1a", b"\1"))


def _touched(folder: Path) -> Iterator[str]:
    """Yield every file or folder that is new, changed or gone."""
    given = folder / "f"
    if not given.is_file() or given.is_symlink() or given.read_bytes() != _CONTENT:
        yield "f"
    yield from (str(each.relative_to(folder)) for each in folder.rglob("*") if each != given)
