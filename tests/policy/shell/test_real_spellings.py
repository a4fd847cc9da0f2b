"""The corpus of spellings is true: real programs do the same by the other spelling as by the rule's own words."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.policy.shell.bash_oracle import BASH

# Of each rule: what has to be there, and how to see that it was done.
GIT = (
    "git init -q -b main . && git config user.email a@b && git config user.name a && echo 1 > f && git add f"
    " && git commit -qm one && echo 2 > f && git commit -qam two"
)
REMOTE = f"git init -q --bare -b main ../r && {GIT} && git remote add origin ../r && git push -q origin main"
DONE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "rm -rf": (
        "mkdir -p x/y && touch x/y/z && chmod a-w x/y/z",
        "test ! -e x",
        (
            "rm -fr x", "rm x -rf", "rm -r -f x", "rm -f -v -R x", "rm --recursive --force x", "rm --r --f x",
            "rm -Rf x", "rm --rec --forc x", "r\\m x -rf", "'rm' -f -r x", "rm -v x -fr", "rm --recurs -f x",
        ),
    ),
    "chmod -R": (
        "mkdir -p a/b && chmod 700 a/b",
        'test "$(stat -c %a a/b)" = 755',
        ("chmod 755 -R a", "chmod --recursive 755 a", "chmod --rec 755 a", "chmod -vR 755 a", "chmod 755 a --recur"),
    ),
    "tar -x": (
        "echo 1 > f && tar -cf a.tar f && rm f",
        "test -e f",
        (
            "tar xf a.tar", "tar -f a.tar -x", "tar --extract -f a.tar", "tar --extr -f a.tar", "tar --get -f a.tar",
            "tar xvf a.tar", "tar -vxf a.tar",
        ),
    ),
    "find -delete": (
        "mkdir x && touch x/a",
        "test ! -e x/a",
        ("find x -name a -delete", "find x -depth -delete -print"),
    ),
    "git reset --hard": (
        f"{GIT} && echo lost > f",
        'test "$(cat f)" != lost',
        (
            "git reset --h", "git reset --har", "git reset HEAD~1 --hard", "git -c a.b=c reset --hard",
            "git --no-pager reset --hard", "git --literal-pathspecs reset --hard", "git -C . reset -q --hard",
        ),
    ),
    "git commit --amend": (
        f"{GIT} && git rev-parse HEAD > ../old",
        '! git merge-base --is-ancestor "$(cat ../old)" HEAD',
        ("git commit -qm x --amend", "git commit --am -m x", "git commit --ame -m x", "git -C . commit -m x --amend"),
    ),
    "git branch -D": (
        f"{GIT} && git switch -qc x && echo 3 > f && git commit -qam 3 && git switch -q main",
        "! git rev-parse -q --verify x",
        (
            "git branch --delete --force x", "git branch -d -f x", "git branch -df x", "git branch --del --forc x",
            "git branch x -D",
        ),
    ),
    "git push --force": (
        f"{REMOTE} && git reset -q --hard HEAD~1",
        'test "$(git -C ../r rev-parse main)" = "$(git rev-parse main)"',
        (
            "git push -fu origin main", "git push origin +main", "git push origin main --force",
            "git -C . push -f origin main", "git push origin +main:main",
        ),
    ),
    "git push --delete": (
        f"{REMOTE} && git push -q origin main:x",
        "! git -C ../r rev-parse -q --verify x",
        ("git push origin :x", "git push -d origin x", "git push --del origin x", "git push origin x --delete"),
    ),
    "git clean -fdx": (
        f"{GIT} && echo '*.o' > .git/info/exclude && mkdir d && touch d/a.o",
        "test ! -e d",
        ("git clean -xdf", "git clean -x -d -f", "git clean --force -dx", "git clean -qxfd"),
    ),
    "make install": (
        "printf 'test:\\n\\ninstall:\\n\\ttouch done\\n' > Makefile",
        "test -e done",
        ("make test install", "make -j 4 install", "make CC=x install", "make -s test install", "make -C . install"),
    ),
}  # fmt: skip
CALLS = [(rule, line) for rule, (_, _, lines) in DONE.items() for line in lines]


@pytest.mark.proves("R49")
@pytest.mark.parametrize(("rule", "line"), CALLS, ids=ascii)
def test_the_other_spelling_does_what_the_rule_is_about(rule: str, line: str, tmp_path: Path) -> None:
    before, seen, _ = DONE[rule]
    folder = tmp_path / "work"
    folder.mkdir()
    script = f"{{ {before}; }} >/dev/null 2>&1 || exit 7\n! {{ {seen}; }} >/dev/null 2>&1 || exit 8\n{line} >&2\n{seen}"
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull}
    assert BASH is not None, "there is no bash here"
    ran = subprocess.run([BASH, "-c", script], cwd=folder, env=environment, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
