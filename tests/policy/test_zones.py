"""Zones: which paths may be read, written, deleted and listed, judged on real trees by where a path really leads."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso.core.model import Approval, Rule, Verdict
from sayso.core.realpath import resolve
from sayso.errors import ConfigurationError, PathEscape
from sayso.policy.zones import Operation, Zone, Zones

STRICTNESS: dict[Approval, int] = {"blocked": 3, "required": 2, "once_per_session": 1, "none": 0}
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
CHANGES: tuple[Operation, ...] = ("write", "delete")
WORDS: tuple[Approval, ...] = get_args(Approval)
OPEN: dict[str, Any] = {"read": "none", "write": "none", "delete": "none"}
PROTECTED = Rule(source="sayso", key="protected")


def zone(name: str, root: Path | str, **words: Any) -> Zone:
    """A zone in which everything runs, unless words say otherwise."""
    return Zone(name=name, root=str(root), rule=Rule(source="sayso.yaml", key=f"zones.{name}"), **(OPEN | words))


def zones(*given: Zone, protected: tuple[Path, ...] = ()) -> Zones:
    return Zones(given, resolve=resolve, protected=map(str, protected))


def approvals(judge: Zones, path: str, operations: tuple[Operation, ...] = OPERATIONS) -> list[Approval]:
    return [judge.judge(path, each).approval for each in operations]


def real_approvals(judge: Zones, path: Path | str, operations: tuple[Operation, ...] = OPERATIONS) -> list[Approval]:
    return [judge.judge_real(str(path), each).approval for each in operations]


def only(word: Approval, count: int = 4) -> list[Approval]:
    return [word] * count


def key_of(verdict: Verdict) -> str | None:
    return verdict.rule and verdict.rule.key


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A real folder, whatever links the system has above it."""
    return Path(resolve(str(tmp_path)))


@pytest.fixture
def scratch(here: Path) -> Path:
    """A root with a file and a folder in it, and something else beside it."""
    (here / "scratch" / "folder").mkdir(parents=True)
    (here / "scratch" / "file").touch()
    (here / "outside").mkdir()
    (here / "outside" / "secret").touch()
    return here / "scratch"


# What a zone says.


@pytest.mark.proves("R51", "R53")
def test_a_zone_that_says_nothing_lets_read_and_asks_about_writing_and_deleting(scratch: Path) -> None:
    plain = Zone(name="scratch", root=str(scratch), rule=Rule(source="sayso.yaml", key="zones.scratch"))
    for path in ("/scratch/file", "/scratch/folder/new"):
        assert approvals(zones(plain), path) == ["none", "required", "required", "none"]


@pytest.mark.proves("R46", "R51")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("operation", ["read", "write", "delete"])
def test_every_approval_word_holds_for_its_operation_and_for_no_other(
    scratch: Path, word: Approval, operation: Operation
) -> None:
    judge = zones(zone("scratch", scratch, **{operation: word}))
    affected = {operation, "list"} if operation == "read" else {operation}
    for each in OPERATIONS:
        verdict = judge.judge("/scratch/file", each)
        assert verdict.approval == (word if each in affected else "none")
        assert key_of(verdict) == "zones.scratch"


@pytest.mark.proves("R51")
def test_the_target_path_chooses_the_zone(here: Path) -> None:
    for name in ("scratch", "output"):
        (here / name).mkdir()
    judge = zones(zone("scratch", here / "scratch"), zone("output", here / "output", write="required"))
    assert judge.judge("/scratch/a", "write").approval == "none"
    assert judge.judge("/output/a", "write").approval == "required"


@pytest.mark.proves("R52")
@pytest.mark.parametrize("word", WORDS)
def test_a_read_only_zone_is_never_changed_whatever_its_approval_says(scratch: Path, word: Approval) -> None:
    judge = zones(zone("scratch", scratch, mode="ro", write=word, delete=word))
    assert approvals(judge, "/scratch/file") == ["none", "blocked", "blocked", "none"]
    verdict = judge.judge("/scratch/file", "write")
    assert (verdict.reason, key_of(verdict)) == (
        "the zone 'scratch' is read-only, so '/scratch/file' is not written",
        "zones.scratch",
    )


@pytest.mark.proves("R52")
def test_a_zone_that_can_be_written_may_still_ask(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch, mode="rw", write="required", delete="blocked"))
    assert approvals(judge, "/scratch/file", CHANGES) == ["required", "blocked"]


def test_a_verdict_names_the_zone_and_the_path_and_cuts_a_long_one(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch, write="required"))
    assert judge.judge("/scratch/file", "write").reason == (
        "the zone 'scratch' says 'required' for every write, and '/scratch/file' is in it"
    )
    long = judge.judge("/scratch/" + "x" * 200 + "/the-end", "write").reason
    assert "'/scratch/xx" in long
    assert "…" in long
    assert "/the-end'" in long
    assert len(long) < 200


# How a path is spelt.


class Rude:
    """An object of somebody else's, whose code must not be run."""

    def __repr__(self) -> str:
        raise RuntimeError("who called my code?")


@pytest.mark.parametrize(
    "path",
    [
        None, 7, b"/scratch/file", Path("/scratch/file"), ["/scratch/file"], Rude(), "", "file", "scratch/file",
        "./scratch/file", "~/file", "C:/file", " /scratch/file", "/scratch/fi\0le", "/scratch/file\0", "/scratch/\n",
        "/scratch/\x1b[2J", "/scratch/\x7f", "/scratch/\x80", "/scratch/\x9f", "/scratch\\file", "/scratch/..\\x",
        "/scratch/\ud800", "//scratch/file", "/scratch//file", "/scratch/file//", "/",
        "/scratch/" + "x/" * 1996, "/scratch/" + "é" * 1996,
    ],
)  # fmt: skip
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_path_that_could_be_read_in_two_ways_is_blocked(scratch: Path, path: Any, operation: Operation) -> None:
    judge = zones(zone("scratch", scratch))
    for verdict in (judge.judge(path, operation), judge.judge_real(path, operation)):
        assert (verdict.approval, key_of(verdict)) == ("blocked", "zones")
        assert verdict.reason.isprintable()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (7, "a path has to be a text, not a int"),
        ("file", "'file' is not absolute; use '/', the name of a zone, and the way inside it"),
        ("/scratch//a", "'/scratch//a' has an empty name in it; use single slashes"),
        ("/scratch/\0", r"'/scratch/\x00' has a control character, a backslash or half a character in it"),
        ("/scratch/a/", "'/scratch/a/' ends with a slash, so it names a folder and no file"),
        ("/scrath/a", "'/scrath/a' is in no zone; did you mean 'scratch'?"),
        ("/other/a", "'/other/a' is in no zone"),
        ("/scratch/../a", "'/scratch/../a' leads out of the zone 'scratch'"),
        ("/scratch/file/a", "nobody can say where '/scratch/file/a' leads: Not a directory"),
        ("/scratch/.git/a", "'/scratch/.git/a' has the protected name '.git', which is never written"),
        ("/scratch", "'/scratch' is or holds the root of the zone 'scratch', which is never written"),
    ],
)
def test_a_block_says_in_one_sentence_why(scratch: Path, path: object, reason: str) -> None:
    assert zones(zone("scratch", scratch)).judge(path, "write").reason == reason


def test_the_longest_path_is_judged(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch))
    rest = 4000 - len("/scratch/") - 15 * 251
    assert judge.judge("/scratch/" + "/".join(["x" * 250] * 15 + ["y" * rest]), "write").approval == "none"
    assert judge.judge("/scratch/" + "/".join(["x" * 250] * 15 + ["y" * (rest + 1)]), "write").approval == "blocked"


@pytest.mark.parametrize(
    "name",
    [
        "~", "~root", "$HOME", "${IFS}", "%2e%2e", "%2e%2e%2fsecret", "...", "..a", ". .", "-rf", "*", "a b", " ", "'",
        "caf\u00e9", "cafe\u0301", "\u202egpj.exe", "zero\u200bwidth", "\u2028", "\u2044etc", "\uff0e\uff0e", "🐍",
        "Makefile", "C:", "&", "#",
    ],
)  # fmt: skip
def test_a_name_that_only_looks_special_is_an_ordinary_one(scratch: Path, name: str) -> None:
    judge = zones(zone("scratch", scratch))
    assert approvals(judge, f"/scratch/{name}") == only("none")
    assert approvals(judge, f"/scratch/{name}/below") == only("none")
    (scratch / name).touch()
    assert approvals(judge, f"/scratch/{name}") == only("none")
    assert approvals(judge, f"/scratch/{name}/../../outside") == only("blocked")


def test_two_forms_of_one_letter_are_two_files(scratch: Path) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    (scratch / composed).mkdir()
    (scratch / decomposed).symlink_to("../outside")
    judge = zones(zone("scratch", scratch), zone("menu", scratch / composed, write="blocked"))
    assert judge.judge(f"/scratch/{composed}/x", "write").approval == "blocked"
    assert judge.judge(f"/scratch/{composed}/x", "read").approval == "none"
    assert judge.judge(f"/scratch/{decomposed}/x", "read").approval == "blocked"


@pytest.mark.parametrize(
    "name", ["Scratch", "SCRATCH", "scratch ", "scratch.", "scratc", "scratch2", "scr\u00e0tch", "scratch\u200b", "."]
)
def test_the_name_of_a_zone_is_compared_exactly(scratch: Path, name: str) -> None:
    assert approvals(zones(zone("scratch", scratch)), f"/{name}/file") == only("blocked")


def test_the_name_of_a_zone_is_not_taken_for_one_that_begins_alike(scratch: Path, here: Path) -> None:
    judge = zones(zone("scratch", scratch, read="required"), zone("scratch2", here / "outside"))
    assert judge.judge("/scratch/file", "read").approval == "required"
    assert judge.judge("/scratch2/file", "read").approval == "none"
    assert judge.judge("/scratch22/file", "read").approval == "blocked"


def test_a_slash_at_the_end_is_for_reading_a_folder(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch))
    for path in ("/scratch/folder/", "/scratch/"):
        assert approvals(judge, path) == ["none", "blocked", "blocked", "none"]
        assert real_approvals(judge, f"{scratch.parent}{path}") == ["none", "blocked", "blocked", "none"]
    assert approvals(judge, "/scratch/file/") == only("blocked")


def test_an_operation_that_nobody_knows_is_blocked(scratch: Path) -> None:
    unknown: Any = "rename"
    verdict = zones(zone("scratch", scratch)).judge("/scratch/file", unknown)
    assert (verdict.approval, verdict.reason.startswith("'rename' is no operation on files")) == ("blocked", True)


# Where a path leads.


@pytest.mark.parametrize("path", ["folder/../file", "./file", "folder/.", "folder/./../folder/x"])
def test_dots_inside_a_zone_are_followed(scratch: Path, path: str) -> None:
    assert approvals(zones(zone("scratch", scratch)), f"/scratch/{path}") == only("none")


@pytest.mark.parametrize(
    "path",
    [
        "..", "../outside/secret", "folder/../../outside/secret", "../scratch/file", "./../scratch/file", "file/..",
        "file/../file", "new/..", "new/../file", "folder/../new/../file", "../" * 40 + "etc/passwd", "x" * 256,
    ],
)  # fmt: skip
def test_dots_that_lead_out_or_after_nothing_are_blocked(scratch: Path, path: str) -> None:
    judge = zones(zone("scratch", scratch), zone("everything", "/"))
    assert approvals(judge, f"/scratch/{path}") == only("blocked")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("file", ""),
        ("./file", ""),
        ("folder", "/new"),
        ("folder/", "/new"),
        ("folder/../folder", "/new"),
        ("nowhere", ""),
        ("folder/nowhere", ""),
        ("second", "/x"),
    ],
)
def test_a_link_that_stays_inside_is_judged_as_its_target(scratch: Path, text: str, rest: str) -> None:
    (scratch / "link").symlink_to(text)
    (scratch / "second").symlink_to("third")
    (scratch / "third").symlink_to("folder")
    assert approvals(zones(zone("scratch", scratch)), f"/scratch/link{rest}") == only("none")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("../outside/secret", ""),
        ("../outside", "/secret"),
        ("../outside/nowhere", ""),
        ("folder/../../outside", "/new"),
        ("..", "/scratch/file"),
        ("../scratch/file", ""),
        ("/etc/passwd", ""),
        ("/etc", "/passwd"),
        ("/", ""),
        ("/nowhere/at/all", ""),
        ("INSIDE", "/file"),
        ("second", ""),
        ("link", ""),
        ("link", "/x"),
        ("loop", ""),
        ("/proc/self/root", "/etc/passwd"),
    ],
)
def test_a_link_that_leads_out_or_nowhere_is_blocked_and_never_asked_about(scratch: Path, text: str, rest: str) -> None:
    (scratch / "link").symlink_to(scratch if text == "INSIDE" else text)
    (scratch / "second").symlink_to("third")
    (scratch / "third").symlink_to("../outside/secret")
    (scratch / "loop").symlink_to("link" if text == "loop" else "loop")
    judge = zones(zone("scratch", scratch, write="required"), zone("everything", "/"))
    assert approvals(judge, f"/scratch/link{rest}") == only("blocked")


def test_a_link_out_is_blocked_at_the_bottom_of_a_path_longer_than_the_kernel_takes(scratch: Path) -> None:
    handle = os.open(scratch, os.O_RDONLY)
    for _ in range(24):
        os.mkdir("d" * 250, dir_fd=handle)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.symlink("../" * 25 + "outside/secret", "out", dir_fd=handle)
    os.symlink("../" * 24 + "file", "in", dir_fd=handle)
    os.close(handle)
    half = "/".join(["d" * 250] * 12)
    (scratch / "half").symlink_to(half)
    judge = zones(zone("scratch", scratch))
    assert approvals(judge, f"/scratch/half/{half}/out") == only("blocked")
    assert "leads out" in judge.judge(f"/scratch/half/{half}/out", "read").reason
    assert approvals(judge, f"/scratch/half/{half}/in") == only("none")
    assert approvals(judge, f"/scratch/half/{half}/new") == only("none")
    assert real_approvals(judge, f"{scratch}/half/{half}/out") == only("blocked")


def test_a_folder_that_is_swapped_for_a_link_is_judged_anew(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch), zone("aside", scratch / "aside", write="required"))
    assert judge.judge("/scratch/folder/x", "write").approval == "none"
    (scratch / "folder").rename(scratch / "aside")
    (scratch / "folder").symlink_to("aside")
    assert judge.judge("/scratch/folder/x", "write").approval == "required"
    (scratch / "folder").unlink()
    (scratch / "folder").symlink_to("../outside")
    assert judge.judge("/scratch/folder/x", "write").approval == "blocked"
    (scratch / "folder").unlink()
    assert judge.judge("/scratch/folder/x", "write").approval == "none"


@pytest.mark.parametrize("code", [errno.EACCES, errno.ELOOP, errno.EIO, errno.EXDEV])
def test_what_cannot_be_resolved_is_blocked_with_the_reason_of_the_system(code: int) -> None:
    def fails(path: str, *, beneath: str | None = None) -> str:
        raise OSError(code, os.strerror(code))

    judge = Zones([zone("scratch", "/scratch")], resolve=fails)
    for verdict in (judge.judge("/scratch/x", "read"), judge.judge_real("/scratch/x", "read")):
        assert (verdict.approval, verdict.reason) == (
            "blocked",
            f"nobody can say where '/scratch/x' leads: {os.strerror(code)}",
        )


@pytest.mark.parametrize("leads_to", ["/", "/etc/passwd", "/scratch2/x", "/scratc"])
def test_a_resolver_that_leads_out_without_a_word_is_not_believed(leads_to: str) -> None:
    def lies(path: str, *, beneath: str | None = None) -> str:
        return leads_to

    judge = Zones([zone("scratch", "/scratch"), zone("everything", "/")], resolve=lies)
    for operation in OPERATIONS:
        verdict = judge.judge("/scratch/x", operation)
        assert (verdict.approval, verdict.reason) == ("blocked", "'/scratch/x' leads out of the zone 'scratch'")


def test_an_escape_is_a_permission_error() -> None:
    assert issubclass(PathEscape, PermissionError)


# Zones in zones.


@pytest.fixture
def nested(here: Path) -> Path:
    """Three folders in each other, and one beside whose name begins alike."""
    (here / "a" / "b" / "c").mkdir(parents=True)
    (here / "a" / "bc").mkdir()
    return here / "a"


@pytest.mark.proves("R51")
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(WORDS, WORDS)))
def test_the_strictest_of_all_zones_that_hold_the_target_decides(
    nested: Path, outer: Approval, inner: Approval
) -> None:
    around = zone("a", nested, read=outer, write=outer, delete=outer)
    inside = zone("b", nested / "b", read=inner, write=inner, delete=inner)
    strictest = max(outer, inner, key=STRICTNESS.__getitem__)
    for judge in (zones(around, inside), zones(inside, around)):
        assert approvals(judge, "/a/b/x") == approvals(judge, "/b/x") == only(strictest)
        assert real_approvals(judge, nested / "b" / "x") == only(strictest)
        assert approvals(judge, "/a/x") == approvals(judge, "/a/bc/x") == only(outer)
        assert real_approvals(judge, nested / "bc" / "x") == only(outer)


def test_the_rule_is_that_of_the_zone_that_decided(nested: Path) -> None:
    judge = zones(
        zone("a", nested), zone("b", nested / "b", write="required"), zone("c", nested / "b" / "c", mode="ro")
    )
    assert key_of(judge.judge("/a/x", "write")) == "zones.a"
    assert key_of(judge.judge("/a/b/x", "write")) == "zones.b"
    assert key_of(judge.judge("/b/c/x", "write")) == "zones.c"
    assert key_of(judge.judge("/b/c/x", "read")) == "zones.b"


@pytest.mark.proves("R52")
def test_a_read_only_zone_inside_another_is_read_only_by_every_way_into_it(nested: Path) -> None:
    judge = zones(zone("a", nested), zone("b", nested / "b", mode="ro"))
    (nested / "link").symlink_to("b")
    for path in ("/a/b/x", "/a/link/x", "/a/b/c/../x", "/b/x", "/a/b/c/new"):
        assert approvals(judge, path) == ["none", "blocked", "blocked", "none"]
    assert approvals(judge, "/a/x") == only("none")


@pytest.mark.proves("R52")
def test_a_zone_inside_a_read_only_one_is_read_only_too(nested: Path) -> None:
    judge = zones(zone("a", nested, mode="ro"), zone("b", nested / "b"))
    assert approvals(judge, "/b/x") == approvals(judge, "/a/b/x") == ["none", "blocked", "blocked", "none"]
    assert key_of(judge.judge("/b/x", "write")) == "zones.a"


def test_a_root_does_not_hold_a_folder_whose_name_begins_alike(nested: Path) -> None:
    judge = zones(zone("b", nested / "b"), zone("bc", nested / "bc", mode="ro"))
    assert approvals(judge, "/b/x") == real_approvals(judge, nested / "b" / "x") == only("none")
    assert (
        approvals(judge, "/bc/x", CHANGES) == real_approvals(judge, nested / "bc" / "x", CHANGES) == only("blocked", 2)
    )
    assert real_approvals(judge, nested / "bcd") == only("blocked")


def test_a_link_counts_where_it_stands_and_where_it_leads_for_a_change(nested: Path) -> None:
    (nested / "plain").touch()
    (nested / "b" / "link").symlink_to("../plain")
    judge = zones(zone("a", nested), zone("b", nested / "b", mode="ro"))
    assert approvals(judge, "/a/b/link") == ["none", "blocked", "blocked", "none"]
    assert real_approvals(judge, nested / "b" / "link") == ["none", "blocked", "blocked", "none"]
    (nested / "way").symlink_to("b")
    assert approvals(judge, "/a/way/link", CHANGES) == only("blocked", 2)
    (nested / "other").symlink_to("plain")
    assert approvals(judge, "/a/other") == only("none")


def test_two_zones_may_share_a_root(nested: Path) -> None:
    judge = zones(zone("loose", nested), zone("strict", nested, write="required"))
    assert judge.judge("/loose/x", "write").approval == judge.judge("/strict/x", "write").approval == "required"


def test_the_topmost_folder_can_be_a_zone(here: Path) -> None:
    judge = zones(zone("everything", "/"))
    assert approvals(judge, f"/everything{here}/x") == real_approvals(judge, here / "x") == only("none")
    assert approvals(judge, "/everything", CHANGES) == real_approvals(judge, "/", CHANGES) == only("blocked", 2)


# What is never changed.


@pytest.mark.parametrize("path", ["/a", "/a/.", "/a/b/..", "/a/up", "/b", "/a/b", "/a/b/c", "/a/to_b", "/a/b/c/."])
def test_the_root_of_a_zone_and_what_holds_one_is_never_changed(nested: Path, path: str) -> None:
    (nested / "up").symlink_to("b/..")
    (nested / "to_b").symlink_to("b")
    (nested / "b" / "c" / "d").mkdir()
    judge = zones(zone("a", nested), zone("b", nested / "b"), zone("d", nested / "b" / "c" / "d"))
    assert approvals(judge, path) == ["none", "blocked", "blocked", "none"]


def test_a_folder_that_holds_a_root_is_not_changed_by_its_real_path_either(nested: Path) -> None:
    judge = zones(zone("b", nested / "b"), zone("outer", nested.parent))
    for path in (nested.parent, nested, nested / "b"):
        assert real_approvals(judge, path) == ["none", "blocked", "blocked", "none"]
    assert real_approvals(judge, nested / "bc") == only("none")


PROTECTED_NAMES = [
    ".git", ".git/hooks/pre-commit", ".git/config", "project/.git", "project/.git/HEAD", ".gitconfig", ".gitmodules",
    ".gitattributes", ".githooks/pre-push", ".husky/pre-commit", ".pre-commit-config.yaml", ".bashrc", ".bash_profile",
    ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
    ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "fish/config.fish", ".config/fish/functions/ls.fish", ".ssh",
    ".ssh/authorized_keys", ".gnupg/gpg.conf", ".vscode/tasks.json", ".idea/workspace.xml", "my.code-workspace",
    ".mcp.json", "mcp.json", ".claude/settings.json", ".cursor/mcp.json", ".codex/config.toml", ".gemini/settings.json",
    ".windsurf/x", ".aider.conf.yml", ".aider.chat.history.md", "CLAUDE.md", "docs/AGENTS.md", "GEMINI.md",
    ".cursorrules", ".github/copilot-instructions.md", ".github/instructions/x.md", "sayso.yaml", "sayso.yml",
    "sayso.test.yaml", ".sayso/x", ".envrc", ".netrc", ".npmrc", ".pypirc", ".devcontainer/devcontainer.json",
    ".config/tmux/tmux.conf", ".config/Code/User/settings.json", "mise.local.toml", "lib/evil.pth", ".gradle/init.d/x",
    ".config/systemd/user/x.service", "sitecustomize.py", ".cargo/config.toml", ".docker/config.json",
]  # fmt: skip


@pytest.mark.parametrize("spelling", [str, str.upper, str.title, str.swapcase])
def test_a_protected_name_is_never_changed_even_before_it_exists(scratch: Path, spelling: Any) -> None:
    judge = zones(zone("scratch", scratch))
    for path in (f"/scratch/{spelling(name)}" for name in PROTECTED_NAMES):
        for each in (path, f"{path}/below", path.replace("/scratch/", "/scratch/folder/../")):
            assert approvals(judge, each) == ["none", "blocked", "blocked", "none"], each
            assert real_approvals(judge, f"{scratch.parent}{each}") == ["none", "blocked", "blocked", "none"], each
            assert judge.judge(each, "write").rule == judge.judge(each, "delete").rule == PROTECTED


def test_a_zone_does_not_cut_a_protected_name_of_two_folders_in_two(scratch: Path) -> None:
    config = scratch / ".config"
    (config / "git").mkdir(parents=True)
    judge = zones(zone("config", config))
    for name in ("git/config", "systemd/user/x.service", "autostart/x.desktop", "Fish/functions/ls.fish"):
        assert judge.judge(f"/config/{name}", "write").approval == "blocked"
    assert judge.judge("/config/mine/x", "write").approval == "none"


@pytest.mark.parametrize(
    "name", [".git.", ".git ", ".g\u200cit", "\ufeff.git", ".ba\u017fhrc", ".\u212a\u017fhrc", "GIT~1"]
)
def test_a_name_that_some_file_systems_take_for_a_protected_one_is_protected(scratch: Path, name: str) -> None:
    assert approvals(zones(zone("scratch", scratch)), f"/scratch/{name}/x") == ["none", "blocked", "blocked", "none"]


@pytest.mark.parametrize(
    "name",
    [
        "Makefile", ".gitignore", ".gitkeep", ".github/workflows/ci.yml", ".env", "git", "my.git", ".gitx", "bashrc",
        "ssh/x", "code-workspace", "claude", "claude.txt", "config", ".config/app", "sayso.db", "saysoyaml",
        "conftest.py", "package.json", ".docker/Dockerfile", "x.aider", "docs/login.md",
    ],
)  # fmt: skip
def test_a_name_that_people_edit_is_not_protected(scratch: Path, name: str) -> None:
    assert approvals(zones(zone("scratch", scratch)), f"/scratch/{name}") == only("none")


def test_a_file_that_can_hold_rules_but_is_also_ordinary_work_is_asked_about(scratch: Path) -> None:
    assert approvals(zones(zone("scratch", scratch)), "/scratch/a/pyproject.toml") == [
        "none",
        "required",
        "required",
        "none",
    ]


def test_reading_a_protected_name_is_what_the_zone_says(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch, read="required"))
    assert approvals(judge, "/scratch/.git/config") == ["required", "blocked", "blocked", "required"]


def test_a_protected_name_counts_in_the_path_as_given_in_the_target_and_where_a_link_stands(scratch: Path) -> None:
    (scratch / ".git").mkdir()
    links = {".bashrc": "file", ".ssh": "folder", "hooks": ".git/hooks", "repository": ".git", ".git/link": "../file"}
    for name, text in links.items():
        (scratch / name).symlink_to(text)
    judge = zones(zone("scratch", scratch))
    for name in (".bashrc", ".ssh/x", "hooks/pre-commit", "repository/config", ".git/../file", "repository/link"):
        assert approvals(judge, f"/scratch/{name}") == ["none", "blocked", "blocked", "none"]
        assert real_approvals(judge, scratch / name) == ["none", "blocked", "blocked", "none"]


def test_dots_at_the_end_stand_for_the_folder_where_they_arrive(scratch: Path) -> None:
    (scratch / "folder" / ".git").mkdir()
    (scratch / "way").symlink_to("folder/.git")
    assert approvals(zones(zone("scratch", scratch)), "/scratch/way/..") == only("none")


def test_a_zone_inside_a_protected_folder_is_the_owners_wish_but_not_a_way_in_from_a_zone_above(scratch: Path) -> None:
    (scratch / ".claude" / "worktree").mkdir(parents=True)
    inside = zone("tree", scratch / ".claude" / "worktree")
    assert approvals(zones(inside), "/tree/file") == only("none")
    assert approvals(zones(inside), "/tree/.git/hooks/x") == ["none", "blocked", "blocked", "none"]
    assert approvals(zones(inside, zone("all", scratch)), "/tree/file") == ["none", "blocked", "blocked", "none"]


@pytest.mark.parametrize(
    "name",
    ["own.db", "own.db-wal", "own.db-shm", "own.db-journal", "own.db-bells", "own.db-bells/x", "own.db/x", "OWN.DB"],
)
def test_no_operation_reaches_the_files_of_sayso(scratch: Path, name: str) -> None:
    judge = zones(zone("scratch", scratch), protected=(scratch / "folder" / "own.db",))
    assert approvals(judge, f"/scratch/folder/{name}") == only("blocked")
    assert real_approvals(judge, scratch / "folder" / name) == only("blocked")
    assert judge.judge(f"/scratch/folder/{name}", "read").rule == PROTECTED


def test_no_link_leads_to_the_files_of_sayso(scratch: Path) -> None:
    (scratch / "folder" / "own.db").touch()
    (scratch / "innocent").symlink_to("folder/own.db")
    (scratch / "way").symlink_to("folder")
    judge = zones(zone("scratch", scratch), protected=(scratch / "folder" / "own.db",))
    for path in ("innocent", "way/own.db", "way/own.db-wal", "folder/../way/own.db"):
        assert approvals(judge, f"/scratch/{path}") == real_approvals(judge, scratch / path) == only("blocked")


def test_a_link_that_stands_in_place_of_a_file_of_sayso_is_not_replaced(scratch: Path) -> None:
    (scratch / "own.yml").symlink_to("file")
    judge = zones(zone("scratch", scratch), protected=(scratch / "own.yml",))
    assert approvals(judge, "/scratch/own.yml", CHANGES) == only("blocked", 2)


def test_a_folder_that_holds_the_files_of_sayso_is_listed_but_not_changed(scratch: Path) -> None:
    judge = zones(zone("scratch", scratch), protected=(scratch / "folder" / "deeper" / "own.db",))
    for path in ("/scratch/folder", "/scratch/folder/deeper"):
        assert approvals(judge, path) == ["none", "blocked", "blocked", "none"]
        assert judge.judge(path, "delete").rule == PROTECTED
    for path in ("/scratch/folder/deeper/own.db2", "/scratch/folder/deeper/own", "/scratch/folder/deeper-2"):
        assert approvals(judge, path) == only("none")


# Paths of this machine.


def test_a_real_path_is_judged_by_the_zones_that_hold_it(scratch: Path, here: Path) -> None:
    judge = zones(zone("scratch", scratch, write="required", delete="once_per_session"))
    assert real_approvals(judge, scratch / "file") == ["none", "required", "once_per_session", "none"]
    assert real_approvals(judge, scratch / "folder" / ".." / "new" / "newer")[:2] == ["none", "required"]
    verdict = judge.judge_real(str(scratch / "file"), "write")
    assert verdict.rule == Rule(source="sayso.yaml", key="zones.scratch")
    for path in (here / "outside" / "secret", here / "scratch2", here, "/etc/passwd", "/scratch/file"):
        assert real_approvals(judge, path) == only("blocked")


def test_a_real_path_follows_every_link_and_is_judged_where_it_arrives(scratch: Path, here: Path) -> None:
    judge = zones(zone("scratch", scratch))
    links = {"outside/in": scratch, "scratch/absolute": scratch / "file", "scratch/out": "../outside", "loop": "loop"}
    for name, text in links.items():
        (here / name).symlink_to(text)
    assert real_approvals(judge, here / "outside" / "in" / "file") == only("none")
    assert real_approvals(judge, scratch / "absolute") == only("none")
    assert real_approvals(judge, scratch / "out" / "in" / "file") == only("none")
    assert real_approvals(judge, scratch / "out" / "secret") == only("blocked")
    assert real_approvals(judge, here / "loop") == only("blocked")


def test_a_link_outside_every_zone_is_followed_for_reading_and_not_for_a_change(scratch: Path, here: Path) -> None:
    (here / "outside" / "link").symlink_to(scratch / "file")
    judge = zones(zone("scratch", scratch))
    assert real_approvals(judge, here / "outside" / "link") == ["none", "blocked", "blocked", "none"]


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/cwd/x", "/proc/self/root/etc/passwd"])
def test_a_way_round_through_the_kernel_is_blocked(path: str) -> None:
    assert real_approvals(zones(zone("everything", "/")), path) == only("blocked")


def test_without_zones_everything_is_blocked(scratch: Path) -> None:
    assert approvals(zones(), "/scratch/file") == real_approvals(zones(), scratch / "file") == only("blocked")


# Mistakes are errors when the zones are built.


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"name": ""}, "has the name ''"),
        ({"name": "a/b"}, "has the name 'a/b'"),
        ({"name": ".."}, r"has the name '\.\.'"),
        ({"name": "a\n"}, r"has the name 'a\\n'"),
        ({"root": ""}, "has the root ''"),
        ({"root": "relative"}, "has the root 'relative'"),
        ({"root": "/a/"}, "has the root '/a/'"),
        ({"root": "/a//b"}, "has the root '/a//b'"),
        ({"root": "/a/../b"}, r"has the root '/a/\.\./b'"),
        ({"root": "/./a"}, r"has the root '/\./a'"),
        ({"mode": "w"}, "has the mode 'w'; use 'ro' or 'rw'"),
        ({"read": "yes"}, "has the approval 'yes'"),
        ({"write": "ask"}, "has the approval 'ask'"),
        ({"delete": None}, "has the approval None"),
    ],
)
def test_a_zone_that_has_no_clear_meaning_is_an_error(words: dict[str, Any], problem: str) -> None:
    facts: dict[str, Any] = {
        "name": "a",
        "root": "/a",
        "rule": Rule(source="sayso.yaml", key="zones.a", line=3),
        **words,
    }
    with pytest.raises(ConfigurationError, match=rf"sayso\.yaml:3 zones\.a {problem}"):
        Zone(**facts)


def test_two_zones_of_one_name_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="two zones are called 'b'; rename one"):
        zones(zone("a", "/a"), zone("b", "/b"), zone("b", "/c"))


@pytest.mark.parametrize("path", ["", "own.db", "/a/../own.db", "/a/own.db/"])
def test_a_file_to_protect_that_nothing_could_match_is_an_error(path: str) -> None:
    with pytest.raises(ConfigurationError, match="is to be protected; use an absolute path"):
        Zones([], resolve=resolve, protected=[path])


# Whatever is configured.


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree that the generated tests look at and never change."""
    root = Path(resolve(str(tmp_path_factory.mktemp("tree")))) / "a"
    (root / "a" / "b").mkdir(parents=True)
    (root / "b" / "a").mkdir(parents=True)
    links = {
        "c": "a/b",
        "a/c": "../b",
        "b/c": "c",
        "a/b/c": "../../..",
        "b/a/c": "../../a/b/nowhere",
        "d": str(root / "b"),
    }
    for name, text in links.items():
        (root / name).symlink_to(text)
    (root / "b" / "f").touch()
    return root


ROOTS = st.sampled_from(["", "/a", "/a/b", "/b", "/b/a", "/b/new"])
WORD = st.sampled_from(WORDS)
MODE = st.sampled_from(["ro", "rw"])
ZONE = st.fixed_dictionaries({"root": ROOTS, "mode": MODE, "read": WORD, "write": WORD, "delete": WORD})
INNER = st.lists(st.sampled_from(["a", "b", "c", "d", "f", "new", "..", "."]), max_size=6).map("/".join)


def built(tree: Path, drawn: list[dict[str, Any]]) -> Zones:
    return zones(*(zone(f"z{number}", f"{tree}{each['root']}", **_words(each)) for number, each in enumerate(drawn)))


def _words(drawn: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in drawn.items() if key != "root"}


def stricter(drawn: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The first zone, with each word at least as strict as in the second."""
    words = {key: max(drawn[key], other[key], key=STRICTNESS.__getitem__) for key in ("read", "write", "delete")}
    return {**drawn, **words, "mode": min(drawn["mode"], other["mode"])}


@pytest.mark.proves("R51", "R52")
@settings(deadline=None, max_examples=300)
@given(drawn=st.lists(ZONE, min_size=1, max_size=3), more=ZONE, inner=INNER, operation=st.sampled_from(OPERATIONS))
def test_a_zone_more_or_a_stricter_zone_never_loosens_a_verdict(
    tree: Path, drawn: list[dict[str, Any]], more: dict[str, Any], inner: str, operation: Operation
) -> None:
    before, added = built(tree, drawn), built(tree, [*drawn, more])
    tightened = built(tree, [stricter(drawn[0], more), *drawn[1:]])
    for number, each in enumerate(drawn):
        virtual = f"/z{number}/{inner}".rstrip("/")
        for after in (added, tightened):
            assert is_at_least(after.judge(virtual, operation), before.judge(virtual, operation))
        real = f"{tree}{each['root']}/{inner}".rstrip("/")
        assert is_at_least(tightened.judge_real(real, operation), before.judge_real(real, operation))


def is_at_least(verdict: Verdict, other: Verdict) -> bool:
    return STRICTNESS[verdict.approval] >= STRICTNESS[other.approval]


@settings(deadline=None, max_examples=300)
@given(root=ROOTS, inner=INNER, operation=st.sampled_from(OPERATIONS))
def test_whatever_is_not_blocked_is_inside_by_the_word_of_the_standard_library(
    tree: Path, root: str, inner: str, operation: Operation
) -> None:
    judge = zones(zone("z", f"{tree}{root}"))
    if judge.judge(f"/z/{inner}".rstrip("/"), operation).approval == "none":
        real = Path(os.path.realpath(f"{tree}{root}/{inner}"))
        assert real.is_relative_to(f"{tree}{root}")
        assert operation not in CHANGES or real != Path(f"{tree}{root}")


@settings(deadline=None)
@given(path=st.text(st.sampled_from("/.zab~\\\0\u202e\ud800 é"), max_size=30), operation=st.sampled_from(OPERATIONS))
def test_every_text_gets_a_verdict_with_a_reason_that_can_be_printed(
    tree: Path, path: str, operation: Operation
) -> None:
    judge = zones(zone("z", tree))
    for verdict in (judge.judge(path, operation), judge.judge_real(path, operation)):
        assert verdict.rule is not None
        assert verdict.reason.isprintable()
