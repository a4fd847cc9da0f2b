"""The strict lexer, by example; `test_bash_fuzz.py` compares it with real bash."""

import pytest

from sayso.policy.shell.lexer import NotProvable, Redirect, hidden_character, lex


@pytest.mark.parametrize(
    ("line", "argvs"),
    [
        ("", []),
        ("  # only a comment\n\n", []),
        ("git status", [("git", "status")]),
        ("a && b || c; d | e |& f & g\nh", [(each,) for each in "abcdefgh"]),
        ("echo 'a  b' \"c d\" e\\ f", [("echo", "a  b", "c d", "e f")]),
        ('echo "\\$x \\`y\\` \\" \\\\ \\z"', [("echo", '$x `y` " \\ \\z')]),
        ("echo ''", [("echo", "")]),
        ("ec'h'o a#b # c", [("echo", "a#b")]),
        ("a \\\n  b", [("a", "b")]),
        ("ab\\\ncd", [("abcd",)]),
        ("a &&\n\n  # why\n b", [("a",), ("b",)]),
        ("git log HEAD~1 HEAD@{1} a=b", [("git", "log", "HEAD~1", "HEAD@{1}", "a=b")]),
        ("find . -name '*.py' -exec grep x {} \\;", [("find", ".", "-name", "*.py", "-exec", "grep", "x", "{}", ";")]),
        ("git log @{u}..HEAD a{b},c", [("git", "log", "@{u}..HEAD", "a{b},c")]),
        ("time a -x && time -p b | c", [("a", "-x"), ("b",), ("c",)]),
        ("\\if x", [("if", "x")]),
        ("ls é 文", [("ls", "é", "文")]),
        ("[ -f x ] && ls", [("[", "-f", "x", "]"), ("ls",)]),
    ],
)
def test_a_line_is_read_as_the_commands_that_bash_would_run(line: str, argvs: list[tuple[str, ...]]) -> None:
    assert [part.argv for part in lex(line)] == argvs


def test_redirections_and_assignments_are_told_beside_the_words() -> None:
    (part,) = lex("TZ=UTC date 2>&1 >/dev/null <f >>'g h'")
    assert part.argv == ("date",)
    assert part.assignments == ("TZ=UTC",)
    assert part.redirects == (
        Redirect(fd="2", operator=">&", target="1"),
        Redirect(fd="", operator=">", target="/dev/null"),
        Redirect(fd="", operator="<", target="f"),
        Redirect(fd="", operator=">>", target="g h"),
    )
    assert [each.writes for each in part.redirects] == [False, True, False, True]


@pytest.mark.parametrize(
    "line",
    [
        "echo $x", "echo ${x}", "echo $(x)", "echo `x`", 'echo "$x"', 'echo "`x`"', "echo $((1))", "echo $'x'",
        'echo $"x"', "ls *", "ls a?", "ls [ab]", "ls ~", "ls a=~/b", "ls {a,b}",
        "ls {1..3}", "* x", "~/x", "{a} x", "(ls)",
        "{ ls; }", "if x; then y; fi", "for x in y; do z; done", "while x; do y; done", "case x in y) z;; esac", "! ls",
        "time", "time -x a", "a | time b", "time time a", "time 'a'", "time (a)", "ls {a..c}{u}", "ls '{'a}..b{c,d}",
        "[[ x ]]", "((1))", "function f { ls; }", "f() { ls; }", "coproc ls", "select x in y; do z; done", "a <<E\nE",
        "a <<< b", "a <(b)", "a >(b)", "a >| b", "a <> b", "a <& 3", "a >& b", "a {fd}> b", "a > $x", "a >", "a > > b",
        "a 123> b",
        "a > 1>b", "a;;b", "a;&b", "&& a", "a &&", "a |", "; a", "a & ; b", "a &\\\n& b", "'a", '"a', "a\\", "%1",
        "'' x", "a\rb", "a\fb",
        "a\x00b", "a\u200bb", "a\u202eb", "a\u00a0b", "a\u3164b", "\ud800", "PATH=x ls", "IFS=x ls", "a[1]=x", "a=(1)",
        "x" * 10_001, "a;" * 101,
    ],
    ids=lambda line: ascii(line)[:40],
)  # fmt: skip
def test_what_cannot_be_said_for_certain_is_not_proven(line: str) -> None:
    with pytest.raises(NotProvable) as caught:
        lex(line)
    assert caught.value.reason
    assert 0 <= caught.value.offset <= len(line)


def test_expansions_of_operands_are_read_where_they_are_wanted() -> None:
    (part,) = lex("ls *.py ~/x", expand=frozenset({"glob", "tilde"}))
    assert part.argv == ("ls", "*.py", "~/x")
    assert part.expands == {"glob", "tilde"}
    with pytest.raises(NotProvable, match="pattern of file names"):
        lex("ls [a]")
    with pytest.raises(NotProvable, match="home folder"):
        lex("ls *.py ~/x", expand=frozenset({"glob"}))


@pytest.mark.parametrize(("text", "offset"), [("plain é 文", None), ("a\u202eb", 1), ("\x1b[0m", 0), ("ab\u2800", 2)])
def test_the_first_character_that_nobody_can_see_is_found(text: str, offset: int | None) -> None:
    assert hidden_character(text) == offset
