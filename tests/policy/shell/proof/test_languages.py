"""Arguments that are a language (awk, sed, find, tar, less, printf): only what is read and harmless runs unasked."""

import pytest

from sayso import Policy
from sayso.core.model import ToolCall

PROGRAMS = ("awk", "gawk", "sed", "find", "tar", "less", "printf", "test", "git status", "ls", "grep", "wc", "sort")
POLICY = Policy.from_dict(
    {
        "default": "required",
        "shell": {"default": "required", "rules": [{"pattern": each, "approval": "none"} for each in PROGRAMS]},
    }
)


def judged(line: str) -> str:
    return POLICY.judge(ToolCall(tool="shell", args={"command": line})).approval


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    "line",
    [
        # A letter right behind a number begins a name.
        """awk 'BEGIN{x=1system("touch pwned")}'""",
        """awk 'BEGIN{x=1getline}'""",
        """gawk 'BEGIN{x=1.5system("id")}'""",
        """awk 'BEGIN{x=0x1system("id")}'""",
        """awk 'BEGIN{x=1e3system("id")}'""",
        """awk 'BEGIN{x=1esystem("id")}'""",
        """awk 'BEGIN{x=.5system("id")}'""",
        """awk 'BEGIN{x=1_system("id")}'""",
        "awk -f evil.awk x",
        "awk --load=evil x",
        "awk -i inplace 1 x",
        "gawk -e 'BEGIN{}' x",
        "awk -l readdir 1",
        # A conversion of printf that assigns to a variable.
        "printf 'abc%n' PATH",
        "printf 'abc%5n' HOME",
        "printf 'abc%-*n' 3 PATH",
        "printf '%s%.2n' x PATH",
        "printf 'abc%hn' PATH",
        "printf -- 'abc%n' PATH",
        "printf 'abc%n' PATH; ls",
        "printf '%' x",
        "printf -v PATH x",
        # find.
        "find . -delete",
        "find . -fprint x",
        "find . -fls x",
        "find . -fprintf x %p",
        "find . -execdir ls {} +",
        "find . -okdir ls {} ';'",
        "find . -D exec",
        "find . -files0-from x",
        "find . -name x -delete",
        "find . -exec rm {} +",
        "find . -exec ls {} + -delete",
        "find . -name -exec rm {} ';' -delete",
        "find . -exec sort -o {} ';'",
        "find . -unknown",
        # tar.
        "tar xf a.tar",
        "tar -xf a.tar",
        "tar -tf a.tar --to-command=id",
        "tar -tf host:a.tar",
        "tar tf a.tar -I ./evil",
        "tar -tf a.tar --use-compress-program=./evil",
        "tar -tf a.tar --checkpoint-action=exec=id",
        "tar cf a.tar x",
        "tar -tf a.tar -xf b.tar",
        "tar --delete -f a.tar x",
        "tar -tf a.tar --rsh-command=x",
        "tar tF a",
        # Others.
        "test -v 'a[$(id)]'",
        "test -R x",
        "less -o x f",
        "less +!id f",
        "sed -i s/a/b/ f",
        "sed -n 'w x' f",
        "sed -f x f",
        "sed 's/a/id/e' f",
        "sed --in-place=x p f",
        "sed -s --file=x f",
    ],
)
def test_what_leaves_the_language_or_is_not_read_asks(line: str) -> None:
    assert judged(line) == "required"


@pytest.mark.proves("R49")
@pytest.mark.parametrize(
    "line",
    [
        "awk 'NR==1.5 || $2 > 1e3' f",
        "awk '{print $1*0.5, .5}' f",
        "awk -F, '{print $2}' f",
        "awk 'BEGIN{print 1 2}'",
        "printf '%s\\n' x",
        "printf '%5.2f %%\\n' 1.5",
        "printf '%-10s|%d\\n' a 1",
        "printf 'a\\tb\\n'",
        "printf '%b' 'x'",
        "printf '%(%F)T\\n' -1",
        "printf '%q' x",
        "printf -- '-%s-' x",
        "printf",
        "find . -name '*.py' -type f",
        "find . -maxdepth 1 -type f -ls",
        "find . ! -name x -print0",
        "find src -newermt x",
        "find . -exec ls -l {} +",
        "find . '(' -name a -o -name b ')' -prune",
        "find . -size +1M -printf '%p %s\\n'",
        "find . -exec grep -n x {} ';'",
        "find . -mtime -1",
        "find . -exec wc -l {} +",
        "find . -not -path './x/*'",
        "tar tf a.tar",
        "tar -tvf a.tar.gz",
        "tar -tzf a.tgz",
        "tar --list --file=a.tar",
        "tar tzvf a.tgz src",
        "test -f x",
        "less -N f",
        "sed -n 1,5p f",
        "sed 's/a/b/g' f",
    ],
)
def test_what_is_read_and_harmless_runs(line: str) -> None:
    assert judged(line) == "none"
