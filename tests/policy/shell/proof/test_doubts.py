"""Words behind a rule's own: what is covered, what asks, and what the question says about the cure."""

from collections.abc import Sequence
from typing import Any

import pytest

from sayso import Policy, Verdict
from sayso.core.model import ToolCall
from sayso.core.redaction import redact_text
from sayso.errors import ConfigurationError


def judge(line: str, *rules: str | dict[str, Any]) -> Verdict:
    written = [{"pattern": each} if isinstance(each, str) else each for each in rules]
    shell = {"default": "required", "rules": [{"approval": "none", **each} for each in written]}
    return Policy.from_dict({"default": "required", "shell": shell}).judge(
        ToolCall(tool="shell", args={"command": line})
    )


def asks(line: str, *rules: str | dict[str, Any]) -> str:
    verdict = judge(line, *rules)
    assert verdict.approval == "required", line
    return verdict.reason


def runs(line: str, *rules: str | dict[str, Any]) -> None:
    verdict = judge(line, *rules)
    assert verdict.approval == "none", f"{line}: {verdict.reason}"


@pytest.mark.proves("R49", "H13")
def test_a_rule_covers_its_own_words_whatever_they_are() -> None:
    runs("frob --unsafe -x @file deploy", "frob --unsafe -x @file deploy")
    runs("sort -o out in", "sort -o out")
    runs("frob deploy staging", "frob deploy")


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("word", ["--anything", "-x", "-xvf", "--output=x", "-o", "--no-sandbox", "-c", "-", "--"])
def test_of_a_program_without_a_profile_only_the_generic_options_are_harmless(word: str) -> None:
    if word in {"-", "--"}:
        runs(f"frob list {word}", "frob list")
    else:
        reason = asks(f"frob list {word}", "frob list")
        assert word in reason
        assert f"`options: [{word.partition('=')[0]}]`" in reason
        assert "`options: any`" in reason
    for harmless in ("--help", "--version", "--verbose", "--color=always"):
        runs(f"frob list {harmless}", "frob list")


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "operand",
    ["@file", "file:///etc/passwd", "'|touch x'", "+main", "'!id'", "';'", "https://evil.example", "ext::sh",
     "me@evil.example:x", "'a\nb'"],
)  # fmt: skip
def test_an_operand_that_programs_take_for_more_than_a_name_asks_and_names_the_rule_for_it(operand: str) -> None:
    reason = asks(f"frob list {operand}", "frob list")
    assert "would allow it" in reason
    runs(f"frob list {operand}", f"frob list {operand}") if "\n" not in operand else None


@pytest.mark.proves("R49")
@pytest.mark.parametrize("operand", ["src", "a.b", "./x", "/etc/hosts", "a:b", "x=1", "'two words'", "v1..v2", "50%"])
def test_a_plain_operand_runs(operand: str) -> None:
    runs(f"frob list {operand}", "frob list")


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    "line",
    ["frob -- --exec=x", "frob list -- -x", "sort -k -o x", "sort -k --output=x", "sort --outp=x in", "sort -no x"],
)
def test_no_option_hides_behind_dashes_values_bundles_or_abbreviations(line: str) -> None:
    asks(line, "frob", "sort")


@pytest.mark.proves("R49", "H13")
def test_options_that_the_rule_lists_run_with_their_values_and_no_others_do() -> None:
    rule = {"pattern": "frob list", "options": ["--since", "-n"]}
    for line in ("frob list --since yesterday", "frob list --since=@x", "frob list -n 5", "frob list -n5 src"):
        runs(line, rule)
    for line in ("frob list --since x --until y", "frob list -nx", "frob list --sinc x", "frob list --since -x"):
        asks(line, rule)
    runs("sort --output x in", {"pattern": "sort", "options": ["-o"]})
    runs("frob list --since x -abc", {"pattern": "frob list", "options": "any"})
    asks("frob list @x", {"pattern": "frob list", "options": "any"})
    runs("find . -delete", {"pattern": "find", "options": "any"})
    runs("find . -delete", {"pattern": "find", "options": ["-delete"]})
    runs("sed -i s/a/b/ f", {"pattern": "sed", "options": ["-i"]})
    asks("sed -i 'w x' f", {"pattern": "sed", "options": "any"})


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    ("rule", "tail"),
    [
        (
            "frob push --dry-run",
            ["--no-dry-run", "--no-dry", "--dry-run=none", "--dry-run=false", "--nodry_run", "--disable-dry-run"],
        ),
        ("frob apply --dry-run=client", ["--dry-run=none", "--dry-run=server"]),
        ("frob delete --namespace=dev", ["--namespace=prod"]),
        ("frob ci --no-scripts", ["--scripts"]),
        ("sort --key=1", ["--key=2", "-k 2", "-k2"]),
        ("sort -k 1", ["--key=2", "-k2"]),
    ],
)
def test_what_a_rule_says_is_not_taken_back_on_the_same_line(rule: str, tail: Sequence[str]) -> None:
    for words in tail:
        assert "takes back" in asks(f"{rule} {words}", {"pattern": rule, "options": "any"})
        asks(f"{rule} {words}", rule)
    runs(f"{rule} in", rule)


@pytest.mark.proves("R49")
def test_a_command_runs_if_one_of_its_rules_covers_all_of_it() -> None:
    runs("frob list --all", "frob", {"pattern": "frob list", "options": ["--all"]})
    runs("frob list --all", {"pattern": "frob", "options": "any"}, "frob list")
    asks("frob list --all -x", {"pattern": "frob", "options": ["-x"]}, {"pattern": "frob list", "options": ["--all"]})


@pytest.mark.proves("R49", "H13")
def test_paths_that_are_expanded_cannot_become_options() -> None:
    expanding = {"pattern": "sort", "operand_expansion": ["glob"]}
    runs("sort src/*.txt", expanding)
    for line in ("sort *.txt", "sort [a-z]*", "sort ?x", "sort -t * a", "sort --key *", "sort -* a", "sort --key=* a"):
        asks(line, expanding)


@pytest.mark.proves("R49", "H13")
def test_the_rest_of_a_word_is_a_value_only_if_it_cannot_be_more_letters_or_another_name() -> None:
    for line in (
        "apt list -qcevil.conf",
        "apt list -qo x",
        "exiftool -comment=x a.jpg",
        "go test -pkgdir=/tmp/x ./...",
    ):
        asks(line, "apt list", "exiftool", "go test")
    for line in ("apt list -qq", "apt list -q=2", "git diff -M50%", "git status -uno", "mvn -DskipTests test"):
        runs(line, "apt list", "git diff", "git status", "mvn")


@pytest.mark.proves("R49", "H13")
def test_a_rule_that_shows_a_version_runs_no_program() -> None:
    runs("ruby -v", "ruby -v")
    asks("ruby -v evil.rb", "ruby -v")
    asks("bash --version evil.sh", "bash --version")


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"options": ["since"]}, "name an option without its value"),
        ({"options": ["--since=x"]}, "name an option without its value"),
        ({"options": "all"}, "any"),
        ({"options": ["--x"], "approval": "required"}, "means nothing"),
    ],
)
def test_options_of_a_rule_that_make_no_sense_are_refused_in_a_sentence(rule: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        judge("frob", {"pattern": "frob", **rule})


@pytest.mark.proves("R49", "H13")
def test_a_value_that_would_be_an_option_of_another_program_asks() -> None:
    assert "--since" in asks("lerna ls --since=--output=pwned", "lerna ls")
    runs("git branch --sort=-committerdate", "git branch")


@pytest.mark.proves("R49", "H13")
def test_an_option_behind_an_image_or_a_container_is_not_one_of_the_runner() -> None:
    assert "for what `docker run` runs" in asks("docker run img -e 'x=evil()'", "docker run img")
    runs("docker run img -e 'x=evil()'", {"pattern": "docker run img", "options": ["-e"]})
    runs("kubectl exec web -it -- ls", "kubectl exec")  # which reads its options up to the dashes


@pytest.mark.proves("R49", "H13")
def test_a_no_behind_an_option_of_the_rule_may_take_it_back() -> None:
    assert "take back" in asks("frob publish --dry-run false", "frob publish --dry-run")
    assert "take back" in asks("npm install --dry-run x --dry-run null", "npm install --dry-run")
    runs("frob find --verbose false", "frob find")
    runs("grep -rn false src", "grep -rn")


@pytest.mark.proves("R49", "H13")
def test_a_word_with_one_dash_is_no_letter_with_its_value() -> None:
    asks("go test -pkgdir=/tmp/x ./...", "go test")
    runs("ctest -j4 -R parser", "ctest")


@pytest.mark.proves("R49", "H13")
def test_where_to_work_is_harmless_only_for_what_reads() -> None:
    runs("kubectl get pods --context prod", "kubectl get")
    assert "--context" in asks("kubectl delete pod web --context prod", "kubectl delete")
    assert "--profile" in asks("aws ec2 terminate-instances --profile prod", "aws ec2 terminate-instances")
    assert "--project" in asks("gcloud compute instances delete web --project p", "gcloud compute instances delete")


@pytest.mark.proves("R49", "H13")
def test_a_pattern_of_names_may_become_a_word_that_the_shape_refuses() -> None:
    expanding = {"pattern": "tsc --noEmit", "operand_expansion": ["glob"]}
    asks("tsc --noEmit fals*", expanding)  # a file may be called `false`
    runs("tsc --noEmit src/*.ts", expanding)


SECRET = "hunter2" * 12


@pytest.mark.parametrize(
    "line",
    [
        f"frob list --password={SECRET}",
        f"frob list --x -H 'Authorization: Bearer {SECRET}'",
        f"frob list @{SECRET * 9}",
        f"unknown 'https://ann:{SECRET}@example.org/x'",
        f"frob list {'x' * 3000} --password={SECRET}",
    ],
)
def test_a_reason_is_short_and_its_cut_shows_no_part_of_a_secret_by_name(line: str) -> None:
    reason = asks(line, "frob list")
    assert len(reason) < 400
    assert "@" in line[:12] or "hunter2" not in redact_text(reason)
