"""The look for what is blocked: commands that a line spells out are found, mentions of them are not."""

import pytest

from sayso import Policy, ToolCall
from sayso.policy.shell.block_scan import scan_commands

REFUSED = ("rm", "curl", "git push", "sudo", "shutdown")
POLICY = Policy.from_dict(
    {
        "default": "required",
        "shell": {"default": "required", "rules": [{"pattern": each, "approval": "blocked"} for each in REFUSED]},
    }
)


def judged(line: str) -> str:
    return POLICY.judge(ToolCall(tool="shell", args={"command": line})).approval


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "{a[0]}>/dev/null rm foo", "A=${x:-a b} rm foo", "A=${x%% *} rm foo", "A=$[ 1 + 2 ] rm foo",
        "a[1 + 2]=5 rm foo", "a[b[0]]=1 rm foo", "a[']']=1 rm foo", "A=$(date)x rm foo", 'A="$(rm x)" ls',
        'A="$(rm x)"', "${x:+a b} git push", "A=${x:-a b} git push", 'A="${x:-\'}" rm foo #\'}', "a=(1 2) rm foo",
        'a["x y"]=1 rm foo', 'A=${x:-"a b"} rm foo', "A=$((1 + (2))) rm foo",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_stands_before_a_command_does_not_hide_it(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("options", ["-c a.b=1 " * 6, "-C . " * 6, "-C . " * 40], ids=len)
@pytest.mark.parametrize("before", ["", "strace ", "nice "])
def test_any_number_of_options_may_stand_before_a_sub_command(before: str, options: str) -> None:
    assert judged(f"{before}git {options}push") == "blocked"
    assert judged(f"{before}git {options}log push") == "required"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "echo $x # <<ls\nrm foo\nls", "echo $((1<<a))\nrm foo\na", "echo $(( 1 <<EOF ))\nrm foo\nEOF",
        "cat <<\\EOF\n'\nEOF\nrm foo #'", "echo '<<ls\n'; rm foo\nls", "echo 'a\n<<ls\n'; rm foo\nls",
        "echo \\<<ls\nrm foo\nls", "cat <<EOF\nrm x", "cat <<EOF <<B\nEOF\nrm x", "cat <<'A B'\nx\nA B\nrm foo",
        "cat <<EOF\n$(cat <<B\n`rm x`\nB\n)\nEOF", 'cat <<EOF\nsay "\nEOF\nrm foo #"',
        'cat <<EOF\n"$(rm foo)"\nEOF', "((ls); cat <<E\n'\nE\nrm foo #')",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_only_looks_like_a_here_document_hides_nothing(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "echo $x a\\ #; rm foo", "(( 16 #ff )); rm foo", "[[ a =~ (a|#b) ]]; rm foo", "[[ x == @(a|#b) ]]; rm foo",
        "[[ a =~ ((a)|#b) ]]; rm foo", "echo @((a)|#b); rm foo", "echo `#it's\nrm foo #'\n`", "[[ a =~ x|#b ]]; rm foo",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_only_looks_like_a_comment_hides_nothing(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "echo \"$(echo ')'; rm foo)\"", 'echo "$(case a in a) rm foo;; esac)"', 'echo "$(: # )\nrm foo\n)"',
        f'echo "$(echo {"a" * 250} " b "; rm foo)"', 'echo "$(case a in esac; rm foo)"', 'echo "a`rm foo`"',
        'echo "$(echo "$(echo "$(rm foo)")")"', 'echo "${x:-$(rm foo)}"', "echo \"$(echo $'\\'); rm foo)\"",
        'echo "\\$x$(rm foo)"', 'echo "$(rm foo', "echo `rm foo",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_substitution_inside_quotes_is_read_to_its_real_end(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "function f if rm foo; then :; fi; f", "function f while rm foo; do break; done; f",
        "coproc X if rm foo; then :; fi; wait", "coproc rm foo", "function f { rm foo; }; f",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_compound_command_with_a_name_is_looked_into(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "trap 'rm\tfoo' EXIT", "trap shutdown EXIT", "trap -- shutdown EXIT", "compgen -C shutdown",
        "mapfile -C rm -c 1 x < f", "mapfile -Crm -c 1 x", "complete -C rm ls", "declare -i 'n=a[`rm`]'",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_a_builtin_evaluates_is_looked_into(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "PS4='$(rm foo)'; set -x; ls", "x='$(rm foo)'; echo \"${x@P}\"", "x='a[$(rm foo)]'; ((x))",
        "BASH_ENV='$(rm foo)' bash -c :", "env BASH_ENV='$(rm foo)' bash -c :", "x='a[$(rm foo)]'; [[ x -eq 0 ]]",
        "x='a[$(rm foo)]'; echo ${b[x]}", 'PS4="\\$(rm foo)"; set -x; ls',
    ],
    ids=ascii,
)  # fmt: skip
def test_a_value_that_bash_expands_later_is_looked_into(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "name", ["$'r\\x{0006d}'", "$'r\\x{16d}'", "$'r\\x{6d'", "$'\\x72m'", "$'r\\555'", "$'\\u72m'"]
)
def test_a_name_in_ansi_quotes_is_decoded_as_bash_does_it(name: str) -> None:
    assert judged(f"{name} foo") == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "flock -w 5 lock rm foo", "flock -c rm lock", "ssh-agent rm foo", "fakeroot rm foo", "perf stat rm foo",
        "valgrind rm foo", "sg root 'rm foo'", "/lib64/ld-linux-x86-64.so.2 /bin/rm foo", "ssh -p 22 -i k host rm x",
        "parallel -j 4 -k --delay 1 rm ::: a", "systemd-run rm x", "systemd-run --user rm x", "uv run rm x",
        "uv --offline run --with x rm x", "npx rm x", "npx -p x rm x", "fd . -x rm", "docker exec c rm x",
        "docker exec -u me -it c rm x", "docker --context x exec c rm x", "docker run --rm i rm x",
        "kubectl exec p -- rm x", "kubectl exec p -c c -- rm x", "kubectl -n x exec -it p -- rm x",
        "git bisect run rm x", "git submodule foreach 'rm x'", "git -C . submodule foreach rm x",
        "git rebase -x 'rm x' main", "git -c alias.x='!rm y' x", "git config alias.x '!rm y'", "torsocks curl x",
        "run0 rm x", "tcsh -c 'rm x'", "at now <<< 'rm x'", "echo 'rm x' | at now", "docker exec -i c sh <<< 'rm x'",
        "ssh host sh -s <<< 'rm x'", "busybox rm x", "busybox " * 20 + "rm x",
        "find . -exec rm x ';' " + "-exec nice ls ';' " * 10,
    ],
    ids=ascii,
)  # fmt: skip
def test_what_a_program_runs_in_turn_is_looked_into(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "line",
    [
        "echo 'rm x' > s; sh s", "cat > s <<'EOF'\nrm x\nEOF\nchmod +x s; ./s", "cat > a/s <<E\nrm x\nE\nbash -e a/s",
        "a=r; b=m; $a$b x", "x=git; $x push", "x='git push'; $x", '"$(which rm)" x', "a=r; ${a}m x",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_command_is_found_that_the_line_puts_together(line: str) -> None:
    assert judged(line) == "blocked"


@pytest.mark.proves("R49")
@pytest.mark.parametrize(
    "line",
    [
        "docker rm x", "docker compose rm x", "docker run --rm x", "docker run -it --name rm img ls",
        "docker run --rm img grep rm f", "docker exec -it c cat rm", "docker exec c grep rm f", "kubectl get pods rm",
        "kubectl exec -it p -- cat rm", "uv pip install curl", "uv run --frozen pytest rm", "npx cowsay rm",
        "npx --yes cowsay rm", "systemd-run --user cat rm", "flock lock grep rm f", "ssh -p 22 host grep rm f",
        "parallel -j 4 grep rm ::: a", "fd rm -x cat", "fd rm", "git submodule foreach 'git log rm'",
        "git submodule update rm", "git rebase -x 'make test' main", "git stash push", "git -C . stash push",
        "git remote add rm x",
    ],
    ids=ascii,
)  # fmt: skip
def test_an_operand_of_what_a_program_runs_is_no_command(line: str) -> None:
    assert judged(line) == "required"


@pytest.mark.proves("R49")
@pytest.mark.parametrize(
    "line",
    [
        "echo $x\n# rm the old\nls", "echo ${x}\n# rm the old\nls", "for f in *; do ls $f; done # rm later",
        "ls $((1 + 2)) # rm it", "for i in 1 2; do\n  # rm the old\n  echo $i\ndone", "echo ${x#rm}",
        'echo "${x%% *} rm"', "A=$x grep rm f", "x=rm; echo $x", "a='rm x'; echo \"$a\"", "trap - EXIT",
        "trap 'echo rm' EXIT", "mapfile -t x < rm", "ENV=production echo $x", 'x="$(grep rm f)"; [[ $x ]]',
        "BODY='no more `curl` or $(rm x)'; gh pr create --body \"$BODY\"", "[[ $x == rm ]]; ls",
        "echo \"$(git log --format='%h (rm) %s')\"", "function f { echo rm; }; f", "coproc X { echo rm; }",
        "echo \"say 'rm\" $x", 'echo "\\a $x rm"',
    ],
    ids=ascii,
)  # fmt: skip
def test_a_mention_in_a_line_that_cannot_be_proven_is_no_command(line: str) -> None:
    assert judged(line) == "required"


@pytest.mark.proves("R49")
@pytest.mark.parametrize(
    "line",
    [
        'git commit -m "$(cat <<\'EOF\'\nsay "hi; rm x"\nrm y\nEOF\n)"',
        "echo $((1<<2))\ncat > f <<'EOF'\nrm x\nEOF",
        "cat > s <<'EOF'\nrm x\nEOF\nsh other",
        "cat > run.sh <<'EOF'\necho rm is bad\nEOF\nbash run.sh",
        "cat <<EOF > f\n# rm $x\nEOF",
        "cat <<-EOF\n\trm $x\n\tEOF\nls",
        "python3 - <<'EOF'\nimport os\nrm = 1\ncurl = '''it's'''\nEOF",
    ],
    ids=ascii,
)
def test_a_mention_in_a_here_document_is_no_command(line: str) -> None:
    assert judged(line) == "required"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("line", ["$(" * 100, "echo " + "`echo " * 2, '"$(' * 100 + "ls"])
def test_a_line_that_does_not_come_out_even_never_runs_unasked(line: str) -> None:
    assert judged(line) in {"required", "blocked"}


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("word", ["env -S ", "busybox ", "toybox ", "strace ", "npx ", "nice ", "git -C "])
def test_a_line_of_wrappers_yields_no_more_commands_than_it_has_words(word: str) -> None:
    count = 2000
    assert sum(1 for _ in scan_commands(word * count)) < 20 * count


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("line", ["ssh " + " ".join(f"-a{n} b{n}" for n in range(1000)), "$(" * 50])
def test_a_line_that_is_too_tangled_is_blocked(line: str) -> None:
    assert judged(line) == "blocked"
