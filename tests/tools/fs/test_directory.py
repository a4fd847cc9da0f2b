"""The file tools' hold on the operating system, with the calls of Linux and with those that every POSIX system has."""

import ctypes
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Barrier, Event

import pytest
from tests.children import bounded

import sayso
from sayso.core.realpath import resolve
from sayso.errors import ConfigurationError, ToolError
from sayso.tools.fs.directory import DirectoryEntry, FileStat, OpenDirectory

MOST = 10_000
TRASH = ".sayso-trash"
LINK = "is or leads through a link that was not there when it was judged"
EXCHANGE = 2


@pytest.fixture(autouse=True)
def every_handle_is_given_back() -> Iterator[None]:
    handles = Path("/proc/self/fd")
    before = listing(handles)
    yield
    assert listing(handles) == before


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A real folder, whatever links the system has above it."""
    folder = Path(resolve(str(tmp_path)))
    (folder / "zone").mkdir()
    return folder


@pytest.fixture
def zone(base: Path) -> Path:
    return base / "zone"


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def portable(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def root(zone: Path, portable: bool) -> Generator[OpenDirectory]:
    with OpenDirectory(str(zone), portable=portable) as root:
        yield root


def facts_of(root: OpenDirectory, way: str) -> FileStat:
    facts = root.stat(way)
    assert facts is not None
    return facts


def create(root: OpenDirectory, way: str, data: bytes) -> FileStat:
    return root.write(way, data, instead_of=None, most=MOST)


def replace(root: OpenDirectory, way: str, data: bytes) -> FileStat:
    return root.write(way, data, instead_of=facts_of(root, way), most=MOST)


def tree(folder: Path) -> dict[str, object]:
    """Everything about everything below a folder but when it was last read."""
    found: dict[str, object] = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else None
        found[str(path)] = status.st_ino, status.st_mode, status.st_nlink, status.st_ctime_ns, data
    return found


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def own_names(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".sayso-*.part")]


# --- The folder ----------------------------------------------------------------------------------------


def test_a_root_is_known_by_its_identity(zone: Path, root: OpenDirectory) -> None:
    assert root.identity == (zone.stat().st_dev, zone.stat().st_ino)


def test_a_root_stays_the_folder_that_was_opened_whatever_takes_its_path(
    base: Path, zone: Path, root: OpenDirectory
) -> None:
    create(root, "file", b"old")
    zone.rename(base / "moved")
    zone.mkdir()
    (zone / "file").write_bytes(b"new")
    assert root.read("file", MOST).data == b"old"
    replace(root, "file", b"older")
    create(root, "another", b"")
    root.delete("another", facts=facts_of(root, "another"), trash=TRASH)
    assert [path.name for path in zone.iterdir()] == ["file"]
    assert (base / "moved" / "file").read_bytes() == b"older"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("zone", "'zone' is not absolute"),
        ("{base}/nowhere", "is not there"),
        ("{base}/zone/file", "is no folder"),
        ("{base}/link", LINK),
        ("{base}/link/folder", LINK),
        ("{base}/zone/../zone", "has an empty name, '.' or '..' in it"),
        ("{base}//zone", "has an empty name, '.' or '..' in it"),
        ("{base}/zone\0", "has a NUL character in it"),
    ],
)
def test_a_root_that_is_no_real_folder_is_a_wrong_configuration(
    base: Path, path: str, words: str, portable: bool
) -> None:
    (base / "zone" / "folder").mkdir()
    (base / "zone" / "file").touch()
    (base / "link").symlink_to("zone")
    with pytest.raises(ConfigurationError) as caught:
        OpenDirectory(path.format(base=base), portable=portable)
    assert words in str(caught.value)


def test_a_root_that_nobody_holds_is_closed(zone: Path, portable: bool) -> None:
    assert OpenDirectory(str(zone), portable=portable).stat("") is not None  # the handles are counted after every test


def test_a_closed_root_is_refused_and_what_was_begun_goes_on(zone: Path, portable: bool) -> None:
    """No thread ever works with a number that means another folder by now."""
    (zone / "file").write_bytes(b"inside")
    other = zone.parent / "other"
    other.mkdir()
    (other / "file").write_bytes(b"outside")
    for _ in range(100):
        root = OpenDirectory(str(zone), portable=portable)
        started = Barrier(3)

        def read_until_closed(root: OpenDirectory = root, started: Barrier = started) -> str:
            assert root.read("file", MOST).data == b"inside"
            started.wait(20)
            while True:
                try:
                    assert root.read("file", MOST).data == b"inside"
                except ToolError as error:
                    return str(error)

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read_until_closed) for _ in range(2)]
            started.wait(20)
            root.close()
            handles = [os.open(other, os.O_RDONLY) for _ in range(5)]
            told = {reader.result(20) for reader in readers}
        for handle in handles:
            os.close(handle)
        root.close()
        assert told == {f"the folder {str(zone)!r} is closed; open it again"}


# --- The way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way",
    ["/", "/file", "a//b", "a/", ".", "..", "a/..", "../zone/a", "./a", "a/./b", "a\0", "a\0/b", "\ud800", "\udcff/b"],
)
def test_a_way_that_does_not_lead_straight_down_is_refused(base: Path, root: OpenDirectory, way: str) -> None:
    create(root, "a", b"")
    before = tree(base)
    facts = facts_of(root, "a")
    uses: list[Callable[[], object]] = [
        lambda: root.stat(way),
        lambda: root.read(way, MOST),
        lambda: root.list_entries(way, MOST),
        lambda: create(root, way, b""),
        lambda: root.write(way, b"", instead_of=facts, most=MOST),
        lambda: root.delete(way, facts=facts, trash=None),
        lambda: root.delete("a", facts=facts, trash=way),
    ]
    for use in uses:
        with pytest.raises(ToolError, match="in it"):
            use()
    assert tree(base) == before


def test_the_empty_way_is_the_folder_itself(root: OpenDirectory) -> None:
    facts = facts_of(root, "")
    assert (facts.kind, facts.identity) == ("folder", root.identity)
    assert root.list_entries("", MOST) == []
    for use in (
        lambda: create(root, "", b""),
        lambda: root.write("", b"", instead_of=facts, most=MOST),
        lambda: root.delete("", facts=facts, trash=None),
    ):
        with pytest.raises(ToolError, match="'' is the folder itself"):
            use()
    with pytest.raises(ToolError, match="'' is a folder, and only regular files are read"):
        root.read("", MOST)


@pytest.mark.parametrize("way", ["link", "link/file", "folder/link", "folder/link/file", "to_file", "dangling"])
@pytest.mark.parametrize("target", ["inside", "outside"])
def test_a_link_is_never_followed_wherever_it_leads(base: Path, root: OpenDirectory, target: str, way: str) -> None:
    (base / "zone" / "inside").mkdir()
    (base / "outside").mkdir()
    for folder in (base / "zone" / "inside", base / "outside"):
        (folder / "file").write_bytes(b"secret")
    facts = facts_of(root, "inside/file")
    led = base / "outside" if target == "outside" else base / "zone" / "inside"
    (base / "zone" / "folder").mkdir()
    links = {"link": led, "folder/link": led, "to_file": led / "file", "dangling": led / "nowhere"}
    for name, where in links.items():
        (base / "zone" / name).symlink_to(where)
    before = tree(base)
    is_last = not way.endswith("/file")
    for use, words in (
        (lambda: root.read(way, MOST), "is a link" if is_last else LINK),
        (lambda: root.list_entries(way, MOST), LINK),
        (lambda: create(root, way, b""), "is there already" if is_last else LINK),
        (lambda: create(root, f"{way}/new", b""), LINK),
        (lambda: create(root, f"{way}/new/new", b""), LINK),
        (lambda: root.write(way, b"", instead_of=facts, most=MOST), "was changed" if is_last else LINK),
        (lambda: root.delete(way, facts=facts, trash=None), "was changed" if is_last else LINK),
        (lambda: root.delete("inside/file", facts=facts, trash=way), LINK),
        (lambda: root.stat(f"{way}/file"), LINK),
    ):
        with pytest.raises(ToolError, match=words) as caught:
            use()
        assert repr(way)[:-1] in str(caught.value)
    assert tree(base) == before
    if is_last:
        assert facts_of(root, way).kind == "link"


def test_a_link_of_the_kernels_is_never_followed(portable: bool) -> None:
    """`root` and `cwd` of a process do not lead where their text says."""
    with OpenDirectory(f"/proc/{os.getpid()}", portable=portable) as root:
        for way in ("cwd", "root", "root/etc", "fd/0/x", "cwd/x"):
            with pytest.raises(ToolError):
                root.list_entries(way, MOST)
            with pytest.raises(ToolError):
                root.read(way, MOST)
        with pytest.raises(ToolError, match=LINK):
            root.stat("root/etc")


def test_a_way_deeper_than_a_path_can_be_is_a_way_like_any_other(zone: Path, root: OpenDirectory) -> None:
    names = [letter * 255 for letter in "abcdefghijklmnopqrstuvwxyz"]
    way = "/".join([*names, "file"])
    assert root.stat(way) is None
    create(root, way, b"deep")
    assert root.read(way, MOST).data == b"deep"
    replace(root, way, b"deeper")
    assert root.list_entries("/".join(names), MOST) == [DirectoryEntry("file", "file")]
    trashed = root.delete(way, facts=facts_of(root, way), trash="/".join([*names, "trash"]))
    assert trashed is not None
    assert root.read(trashed, MOST).data == b"deeper"
    assert root.stat(way) is None
    assert [path.name for path in zone.iterdir()] == ["a" * 255]


def test_another_file_system_below_the_folder_may_be_entered(portable: bool) -> None:
    with OpenDirectory("/", portable=portable) as root, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert Path(folder).stat().st_dev != root.identity[0]
        create(root, f"{folder[1:]}/file", b"there")
        assert root.read(f"{folder[1:]}/file", MOST).data == b"there"


# --- Looking, reading, listing -------------------------------------------------------------------------


def make_of_every_kind(zone: Path) -> None:
    (zone / "file").write_bytes(b"1234")
    (zone / "folder").mkdir()
    (zone / "link").symlink_to("/dev/zero")
    os.mkfifo(zone / "pipe")
    os.mknod(zone / "socket", stat.S_IFSOCK | 0o600)


def test_every_kind_is_told_apart(zone: Path, root: OpenDirectory) -> None:
    make_of_every_kind(zone)
    assert [(each.name, each.kind) for each in root.list_entries("", MOST)] == [
        ("file", "file"),
        ("folder", "folder"),
        ("link", "link"),
        ("pipe", "other"),
        ("socket", "other"),
    ]
    for each in root.list_entries("", MOST):
        assert facts_of(root, each.name).kind == each.kind


def test_the_facts_are_those_of_the_system(zone: Path, root: OpenDirectory) -> None:
    (zone / "file").write_bytes(b"1234")
    (zone / "file").chmod(0o4751)
    (zone / "other").hardlink_to(zone / "file")
    status = (zone / "file").stat()
    assert facts_of(root, "file") == FileStat(
        kind="file",
        identity=(status.st_dev, status.st_ino),
        size=4,
        links=2,
        mode=0o4751,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )
    assert root.read("file", MOST).stat == facts_of(root, "file")


def test_where_nothing_is_nothing_is_seen(zone: Path, root: OpenDirectory) -> None:
    (zone / "file").touch()
    assert root.stat("nowhere") is None
    assert root.stat("nowhere/at/all") is None
    with pytest.raises(ToolError, match="'nowhere' is not there"):
        root.read("nowhere", MOST)
    with pytest.raises(ToolError, match="'nowhere' is not there"):
        root.list_entries("nowhere", MOST)
    with pytest.raises(ToolError, match="'file/deeper' is no folder, or leads through something that is none"):
        root.stat("file/deeper")


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("folder", "'folder' is a folder, and only regular files are read"),
        ("link", "'link' is a link, and only regular files are read"),
        ("pipe", "'pipe' is a device, a pipe or a socket, and only regular files are read"),
        ("socket", "'socket' is a device, a pipe or a socket, and only regular files are read"),
    ],
)
def test_only_regular_files_are_read_and_nothing_hangs(zone: Path, root: OpenDirectory, way: str, words: str) -> None:
    make_of_every_kind(zone)
    with pytest.raises(ToolError) as caught:
        root.read(way, MOST)
    assert str(caught.value) == words


def test_a_device_is_not_read(portable: bool) -> None:
    with OpenDirectory("/dev", portable=portable) as root, pytest.raises(ToolError, match="'zero' is a device"):
        root.read("zero", MOST)


def test_a_file_that_does_not_tell_its_size_is_not_read_in_part(portable: bool) -> None:
    with (
        OpenDirectory(f"/proc/{os.getpid()}", portable=portable) as root,
        pytest.raises(ToolError, match="'status' was changed"),
    ):
        root.read("status", MOST)


def test_a_pipe_that_takes_the_place_of_a_file_meanwhile_hangs_nobody(zone: Path, root: OpenDirectory) -> None:
    (zone / "file").write_bytes(b"inside")
    os.mkfifo(zone / "pipe")

    def read() -> None:
        assert root.read("file", MOST).data == b"inside"

    with swapping(zone / "file", zone / "pipe") as turns:
        insist({"read": read}, turns, both_ways={"read"})


def test_a_file_as_large_as_the_limit_is_read_and_a_larger_one_is_refused(zone: Path, root: OpenDirectory) -> None:
    (zone / "file").write_bytes(b"1234")
    (zone / "empty").touch()
    assert root.read("file", 4).data == b"1234"
    assert root.read("file", 5).data == b"1234"
    assert root.read("empty", 0).data == b""
    with pytest.raises(ToolError, match=r"^'file' has 4 bytes, and 3 is the most that is read$"):
        root.read("file", 3)


def test_a_huge_file_is_refused_before_it_is_read(zone: Path, root: OpenDirectory) -> None:
    with (zone / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert facts_of(root, "huge").size == 1 << 40
    with pytest.raises(ToolError, match="1099511627776 bytes"):
        root.read("huge", MOST)


def grow(file: int, size: int) -> None:
    os.pwrite(file, b"more", size)
    os.ftruncate(file, size)


def shrink(file: int, size: int) -> None:
    os.ftruncate(file, size - 4)
    os.ftruncate(file, size)


def overwrite(file: int, size: int) -> None:
    os.pwrite(file, b"\0", size // 2)


@pytest.mark.parametrize("change", [grow, shrink, overwrite])
def test_a_file_that_changes_while_it_is_read_is_refused(
    zone: Path, root: OpenDirectory, change: Callable[[int, int], None]
) -> None:
    size = 1 << 23
    with (zone / "file").open("wb") as file:
        file.truncate(size)
        told = ""
        with repeating(lambda: change(file.fileno(), size)):
            while "while it was read" not in told:
                try:
                    assert len(root.read("file", size).data) in {size - 4, size}, "as it was for a moment"
                except ToolError as error:
                    told = str(error)
    assert told == "'file' was changed while it was read; read it again"


def test_a_file_that_grows_is_never_read_past_the_limit(zone: Path, root: OpenDirectory) -> None:
    with (zone / "file").open("wb") as file, repeating(lambda: file.write(b"x" * 50)):
        told = ""
        while "the most that is read" not in told:
            try:
                assert len(root.read("file", MOST).data) <= MOST
            except ToolError as error:
                told = str(error)


def test_a_folder_with_too_many_names_is_not_listed(zone: Path, root: OpenDirectory) -> None:
    for number in range(3):
        (zone / str(number)).touch()
    assert [each.name for each in root.list_entries("", 3)] == ["0", "1", "2"]
    with pytest.raises(ToolError, match="'' has more than 2 names in it"):
        root.list_entries("", 2)


def test_strange_names_are_listed_and_used(zone: Path, root: OpenDirectory) -> None:
    names = ["new\nline", "\x1b[31m", " ", "...", "ü", "\u202e", "x" * 255, "-rf", "*", "\\"]
    for name in names:
        create(root, name, name.encode())
        assert root.read(name, MOST).data == name.encode()
        replace(root, name, b"")
    assert sorted(each.name for each in root.list_entries("", MOST)) == sorted(names)
    for name in names:
        trashed = root.delete(name, facts=facts_of(root, name), trash=TRASH)
        assert trashed is not None
        assert root.read(trashed, MOST).data == b""
    assert listing(zone) == [TRASH]


def test_a_name_that_is_no_utf8_is_shown_and_cannot_be_used(zone: Path, root: OpenDirectory) -> None:
    Path(os.fsdecode(bytes(zone) + b"/caf\xe9")).touch()
    assert root.list_entries("", MOST) == [DirectoryEntry("caf\\xe9", "file")]
    assert root.stat("caf\\xe9") is None


def test_a_name_that_is_too_long_is_a_sentence(root: OpenDirectory) -> None:
    for use in (
        lambda: create(root, "x" * 256, b""),
        lambda: root.stat("x" * 256),
        lambda: root.list_entries("x" * 256, 1),
    ):
        with pytest.raises(ToolError, match=r"'x+' has a name in it that is too long for the file system"):
            use()
    with pytest.raises(ToolError, match=r"'x+/y' has a name in it that is too long"):
        create(root, "x" * 256 + "/y", b"")


# --- Writing -------------------------------------------------------------------------------------------


def test_a_new_file_has_the_mode_that_the_umask_leaves(zone: Path, root: OpenDirectory) -> None:
    before = os.umask(0o027)
    try:
        facts = create(root, "new/folder/file", b"data")
    finally:
        os.umask(before)
    assert (zone / "new/folder/file").read_bytes() == b"data"
    assert facts == facts_of(root, "new/folder/file")
    assert facts.mode == 0o640
    assert facts_of(root, "new").mode == 0o750
    assert not own_names(zone)


def test_a_replaced_file_keeps_its_permissions_but_no_privileges(zone: Path, root: OpenDirectory) -> None:
    (zone / "file").write_bytes(b"old")
    (zone / "file").chmod(0o6751)
    before = facts_of(root, "file")
    after = replace(root, "file", b"newer")
    assert (zone / "file").read_bytes() == b"newer"
    assert after == facts_of(root, "file")
    assert (after.mode, after.size, after.links) == (0o751, 5, 1)
    assert after.identity != before.identity
    assert not own_names(zone)


def test_nothing_that_is_there_is_overwritten_by_a_new_file(zone: Path, root: OpenDirectory) -> None:
    make_of_every_kind(zone)
    (zone / "dangling").symlink_to("nowhere")
    before = tree(zone)
    for name in ("file", "folder", "link", "pipe", "socket", "dangling"):
        with pytest.raises(ToolError, match=f"^'{name}' is there already$"):
            create(root, name, b"")
    assert tree(zone) == before


def rewrite(file: Path) -> None:
    file.write_bytes(b"else")


def rewrite_unseen(file: Path) -> None:
    status = file.stat()
    file.write_bytes(b"else")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def put_another_there(file: Path) -> None:
    status = file.stat()
    file.rename(file.with_name("aside"))
    file.write_bytes(b"1234")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def put_a_folder_there(file: Path) -> None:
    file.unlink()
    file.mkdir()


def put_a_link_there(file: Path) -> None:
    file.rename(file.with_name("aside"))
    file.symlink_to("aside")


@pytest.mark.parametrize(
    "change",
    [rewrite, rewrite_unseen, put_another_there, put_a_folder_there, put_a_link_there, Path.unlink],
)
def test_what_was_changed_meanwhile_is_neither_replaced_nor_deleted(
    zone: Path, root: OpenDirectory, change: Callable[[Path], None]
) -> None:
    (zone / "file").write_bytes(b"1234")
    facts = facts_of(root, "file")
    change(zone / "file")
    before = tree(zone)
    (zone / TRASH).mkdir(mode=0o700)
    for use in (
        lambda: root.write("file", b"new", instead_of=facts, most=MOST),
        lambda: root.delete("file", facts=facts, trash=None),
        lambda: root.delete("file", facts=facts, trash=TRASH),
    ):
        with pytest.raises(ToolError, match=r"^'file' was changed meanwhile; look at it again$"):
            use()
    (zone / TRASH).rmdir()
    before.pop(str(zone))
    assert {path: facts for path, facts in tree(zone).items() if path != str(zone)} == before


def test_only_a_regular_file_with_one_name_that_may_be_written_is_replaced(zone: Path, root: OpenDirectory) -> None:
    make_of_every_kind(zone)
    (zone / "file").chmod(0o444)
    (zone / "name").write_bytes(b"linked")
    (zone / "other").hardlink_to(zone / "name")
    before = tree(zone)
    for name, words in {
        "folder": "is no regular file",
        "link": "is no regular file",
        "pipe": "is no regular file",
        "name": "is one of 2 names",
        "file": "is write-protected",
    }.items():
        with pytest.raises(ToolError, match=f"^'{name}' {words}"):
            replace(root, name, b"")
    assert tree(zone) == before
    assert root.read("name", MOST).stat.links == 2


def test_the_owner_of_a_replaced_file_stays_or_it_is_not_replaced(zone: Path, portable: bool) -> None:
    """Else its permissions would be for other people."""
    (zone / "file").write_bytes(b"old")
    groups = set(os.getgroups()) - {os.getgid()} if os.geteuid() else {12345}
    for group in groups or {os.getgid()}:
        os.chown(zone / "file", -1, group)
        with OpenDirectory(str(zone), portable=portable) as root:
            replace(root, "file", b"new")
        assert (zone / "file").stat().st_gid == group


def test_a_file_larger_than_the_limit_is_not_written(zone: Path, root: OpenDirectory) -> None:
    root.write("file", b"1234", instead_of=None, most=4)
    with pytest.raises(ToolError, match=r"^'other' would have 5 bytes, and 4 is the most that is written$"):
        root.write("other", b"12345", instead_of=None, most=4)
    assert listing(zone) == ["file"]


def test_folders_are_made_only_for_new_files(zone: Path, root: OpenDirectory) -> None:
    facts = create(root, "file", b"")
    with pytest.raises(ToolError, match="'new/file' is not there, or a folder on the way to it is not"):
        root.write("new/file", b"", instead_of=facts, most=MOST)
    with pytest.raises(ToolError, match="'file/new' is no folder"):
        create(root, "file/new", b"")
    assert listing(zone) == ["file"]


def test_where_the_system_lets_nobody_write_that_is_a_sentence(portable: bool) -> None:
    with OpenDirectory(f"/proc/{os.getpid()}", portable=portable) as root, pytest.raises(ToolError, match=r"^'new' "):
        create(root, "new", b"")


def test_of_several_writers_of_a_new_file_exactly_one_wins(zone: Path, root: OpenDirectory) -> None:
    writers = 6
    for turn in range(40):
        together = Barrier(writers)

        def write(number: int, way: str = f"folder-{turn}/file", together: Barrier = together) -> str:
            together.wait(20)
            try:
                create(root, way, str(number).encode() * 1000)
            except ToolError as error:
                return str(error)
            return str(number) * 1000

        with ThreadPoolExecutor(writers) as pool:
            told = list(pool.map(write, range(writers)))
        winners = [each for each in told if len(each) == 1000]
        assert winners == [(zone / f"folder-{turn}/file").read_text()]
        assert set(told) == {*winners, f"'folder-{turn}/file' is there already"}
    assert not own_names(zone)


def test_of_several_who_replace_or_delete_the_same_file_exactly_one_wins(zone: Path, root: OpenDirectory) -> None:
    deleted = 0
    for _ in range(60):
        (zone / "file").write_bytes(b"first")
        facts, together = facts_of(root, "file"), Barrier(4)

        def change(number: int, facts: FileStat = facts, together: Barrier = together) -> bool:
            together.wait(20)
            try:
                if number == 3:
                    root.delete("file", facts=facts, trash=None)
                else:
                    root.write("file", str(number).encode(), instead_of=facts, most=MOST)
            except ToolError as error:
                assert str(error).endswith("; look at it again")  # noqa: PT017 - or no error
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(change, range(4)))
        # When the one who locked the file first finds that it is still there, nobody else has come through.
        assert won.count(True) == 1
        deleted += won[3]
        assert listing(zone) == ([] if won[3] else ["file"])
        assert won[3] or (zone / "file").read_text() == str(won.index(True))
    assert deleted < 60


def test_a_file_that_somebody_has_locked_is_neither_replaced_nor_deleted(zone: Path, root: OpenDirectory) -> None:
    facts = create(root, "file", b"data")
    with (zone / "file").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        for use in (
            lambda: root.write("file", b"new", instead_of=facts, most=MOST),
            lambda: root.delete("file", facts=facts, trash=None),
        ):
            with pytest.raises(ToolError, match="'file' is locked: somebody else is changing it"):
                use()
    assert listing(zone) == ["file"]
    root.delete("file", facts=facts, trash=None)


def is_ready(draft: Path) -> bool:
    """Whether a new file is about to take its place: it has its permissions."""
    try:
        return draft.stat().st_mode & 0o777 == 0o644
    except FileNotFoundError:
        return False


def put_theirs_there(zone: Path, may_begin: Callable[[], bool]) -> None:
    (zone / "theirs").write_bytes(b"theirs")
    while not may_begin():
        pass
    (zone / "theirs").replace(zone / "file")


def test_what_somebody_else_puts_there_is_not_lost_when_a_file_is_replaced(zone: Path) -> None:
    """Without the exchange that Linux has, what comes at the very last moment is lost, and no test can say when."""
    outcomes: Counter[bool] = Counter()
    with OpenDirectory(str(zone)) as root, ThreadPoolExecutor(1) as pool:
        while outcomes.total() < 300 or len(outcomes) < 2:
            (zone / "file").write_bytes(b"old")
            (zone / "file").chmod(0o644)
            facts, is_over = facts_of(root, "file"), Event()
            other = pool.submit(
                put_theirs_there, zone, lambda over=is_over: over.is_set() or any(map(is_ready, zone.glob(".sayso-*")))
            )
            try:
                root.write("file", b"ours", instead_of=facts, most=MOST)
                outcomes[True] += 1
            except ToolError:
                outcomes[False] += 1
            is_over.set()
            other.result(20)
            assert (zone / "file").read_bytes() == b"theirs"  # they came later, or ours was refused
            assert listing(zone) == ["file"]


def meet(together: Barrier, folder: Path, looks: int) -> bool:
    """Begin together, but look round so many times first, to come at another moment each time."""
    together.wait(20)
    return all(folder.exists() for _ in range(looks))


def test_what_somebody_else_puts_there_is_not_lost_when_a_file_is_deleted(zone: Path, root: OpenDirectory) -> None:
    outcomes: Counter[bool] = Counter()
    random = Random(3)  # noqa: S311 - to come at different moments
    with ThreadPoolExecutor(1) as pool:
        while outcomes.total() < 300 or len(outcomes) < 2:
            (zone / "file").write_bytes(b"old")
            facts, together = facts_of(root, "file"), Barrier(2)
            other = pool.submit(put_theirs_there, zone, partial(meet, together, zone, random.randrange(30)))
            together.wait(20)
            try:
                root.delete("file", facts=facts, trash=None)
                outcomes[True] += 1
            except ToolError:
                outcomes[False] += 1
            other.result(20)
            assert (zone / "file").read_bytes() == b"theirs"
            assert listing(zone) == ["file"]


# --- Deleting ------------------------------------------------------------------------------------------


def test_a_deleted_file_is_gone(zone: Path, root: OpenDirectory) -> None:
    create(root, "folder/file", b"data")
    assert root.delete("folder/file", facts=facts_of(root, "folder/file"), trash=None) is None
    assert root.stat("folder/file") is None
    assert [path.name for path in zone.rglob("*")] == ["folder"]


def test_what_was_moved_to_the_trash_is_still_the_same_file(root: OpenDirectory) -> None:
    before = create(root, "folder/my file.txt", b"data")
    trashed = root.delete("folder/my file.txt", facts=before, trash=TRASH)
    assert trashed is not None
    assert trashed.startswith(f"{TRASH}/20")
    assert trashed.endswith("-my file.txt")
    assert root.stat("folder/my file.txt") is None
    assert facts_of(root, TRASH).mode == 0o700
    after = root.read(trashed, MOST)
    assert after.data == b"data"
    assert (after.stat.identity, after.stat.mtime_ns) == (before.identity, before.mtime_ns)


def test_files_of_the_same_name_lie_side_by_side_in_the_trash(zone: Path, root: OpenDirectory) -> None:
    for number in range(5):
        root.delete("file", facts=create(root, "file", str(number).encode()), trash=TRASH)
    assert {path.read_text() for path in (zone / TRASH).iterdir()} == set("01234")


def test_only_regular_files_are_deleted(zone: Path, root: OpenDirectory) -> None:
    make_of_every_kind(zone)
    before = tree(zone)
    for name in ("folder", "link", "pipe", "socket"):
        with pytest.raises(ToolError, match=f"^'{name}' is no regular file, and nothing else is deleted$"):
            root.delete(name, facts=facts_of(root, name), trash=None)
    assert tree(zone) == before


def test_a_trash_that_others_can_write_to_is_not_used(zone: Path, root: OpenDirectory) -> None:
    facts = create(root, "file", b"data")
    (zone / TRASH).mkdir()
    (zone / TRASH).chmod(0o777)
    with pytest.raises(ToolError, match=r"'\.sayso-trash' cannot be the trash"):
        root.delete("file", facts=facts, trash=TRASH)
    (zone / TRASH).rmdir()
    (zone / TRASH).touch()
    with pytest.raises(ToolError, match=r"'\.sayso-trash' is no folder"):
        root.delete("file", facts=facts, trash=TRASH)
    assert facts_of(root, "file") == facts


def test_a_file_of_another_file_system_does_not_fit_into_the_trash(zone: Path, portable: bool) -> None:
    with OpenDirectory("/", portable=portable) as root, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        way = f"{folder[1:]}/file"
        facts = create(root, way, b"there")
        with pytest.raises(ToolError, match=f"^'{way}' is on another file system than the folder that it would"):
            root.delete(way, facts=facts, trash=f"{zone}/trash"[1:])
        assert facts_of(root, way) == facts
        assert not listing(zone / "trash")


# --- Those who move things meanwhile -------------------------------------------------------------------


@contextmanager
def repeating(step: Callable[[], object]) -> Generator[Callable[[], int]]:
    """Do something in another thread again and again; tells how often."""
    stop, turns = Event(), [0]

    def repeat() -> None:
        while not stop.is_set():
            step()
            turns[0] += 1

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(repeat)
        try:
            yield lambda: turns[0]
        finally:
            stop.set()
            other.result(20)


@contextmanager
def swapping(one: Path, other: Path) -> Generator[Callable[[], int]]:
    """Let two names change places again and again, so that each is always there; at the end they are as before."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2

    def swap() -> None:
        for _ in range(2):
            assert renameat2(-100, bytes(one), -100, bytes(other), EXCHANGE) == 0, os.strerror(ctypes.get_errno())

    with repeating(swap) as turns:
        yield turns


def insist(uses: dict[str, Callable[[], object]], turns: Callable[[], int], both_ways: set[str]) -> None:
    """Do everything until things were moved thousands of times, and these were both done and refused."""
    outcomes: Counter[tuple[str, bool]] = Counter()
    wanted = {(name, done) for name in both_ways for done in (True, False)}
    while turns() < 10_000 or not wanted <= outcomes.keys():
        for name, use in uses.items():
            try:
                use()
            except ToolError:
                outcomes[name, False] += 1
            else:
                outcomes[name, True] += 1


class Worker:
    """Uses a folder that may be a link to the outside at any moment."""

    def __init__(self, root: OpenDirectory, outside: Path) -> None:
        self.root = root
        self.outside = {path.stat().st_ino for path in outside.rglob("*")}
        self.random = Random(1)  # noqa: S311 - to try different things

    def uses(self) -> dict[str, Callable[[], object]]:
        return {
            "read": lambda: self.read("folder/file"),
            "read deep": lambda: self.read("folder/deep/file"),
            "look": lambda: self.look("folder/deep"),
            "list": lambda: self.list("folder"),
            "replace": lambda: replace(self.root, "folder/replaced", b"inside again"),
            "create": lambda: self.create("folder/new"),
            "create deep": lambda: self.create(f"folder/{self.random.randrange(50)}/new"),
            "delete": lambda: self.delete(f"folder/file-{self.random.randrange(5)}"),
            "to trash": lambda: self.delete("deleted"),
        }

    def read(self, way: str) -> None:
        assert self.root.read(way, MOST).data.startswith(b"inside")

    def look(self, way: str) -> None:
        assert facts_of(self.root, way).identity[1] not in self.outside

    def list(self, way: str) -> None:
        assert "secret" not in {each.name for each in self.root.list_entries(way, 10**6)}

    def create(self, way: str) -> None:
        made = f"{way}-{self.random.randrange(10**9)}"
        self.root.delete(made, facts=create(self.root, made, b"inside"), trash=None)

    def delete(self, way: str) -> None:
        facts = self.root.stat(way) or create(self.root, way, b"inside")
        self.root.delete(way, facts=facts, trash=self.random.choice([None, "folder/trash", TRASH]))


def test_a_folder_that_becomes_a_link_and_back_never_leads_out(base: Path, zone: Path, root: OpenDirectory) -> None:
    for folder in (base / "outside", zone / "folder"):
        (folder / "deep").mkdir(parents=True)
        (folder / "trash").mkdir(mode=0o700)
        for name in ("file", "replaced", "deep/file", *(f"file-{number}" for number in range(5))):
            (folder / name).write_text("secret" if folder.name == "outside" else "inside")
    (base / "outside" / "secret").touch()
    (zone / "link").symlink_to(base / "outside")
    outside = tree(base / "outside")
    uses = Worker(root, base / "outside").uses()
    with swapping(zone / "folder", zone / "link") as turns:
        insist(uses, turns, both_ways=set(uses))
    assert tree(base / "outside") == outside


def test_a_file_that_becomes_a_link_and_back_never_leads_out(base: Path, zone: Path, root: OpenDirectory) -> None:
    (base / "outside").write_bytes(b"secret")
    (zone / "link").symlink_to(base / "outside")
    (zone / "file").write_bytes(b"inside")
    outside = tree(base / "outside")

    def read() -> None:
        assert root.read("file", MOST).data == b"inside"

    with swapping(zone / "file", zone / "link") as turns:
        insist({"read": read, "replace": lambda: replace(root, "file", b"inside")}, turns, both_ways={"read"})
    assert tree(base / "outside") == outside


# --- Other processes -----------------------------------------------------------------------------------

PRELUDE = """
import sys, ctypes, os, resource
from sayso.errors import ToolError
from sayso.tools.fs.directory import OpenDirectory
root = OpenDirectory(sys.argv[1], portable=sys.argv[2] == "True")
"""


def child(code: str, *arguments: object) -> "AbstractContextManager[subprocess.Popen[str]]":
    environment = {**os.environ, "PYTHONPATH": str(Path(sayso.__file__).parents[1])}
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return bounded(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    )


def test_a_write_that_fails_in_the_middle_leaves_nothing_behind(zone: Path, portable: bool) -> None:
    (zone / "file").write_bytes(b"old")
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
for way in ("file", "new"):
    try:
        root.write(way, b"x" * 100_000, instead_of=root.stat(way), most=10**6)
    except ToolError as error:
        print(error)
"""
    with child(code, zone, portable) as process:
        out, err = process.communicate(timeout=60)
    words = "cannot be written: the operating system does not permit files that large"
    assert out.splitlines() == [f"'file' {words}", f"'new' {words}"], err
    assert {path.name: path.read_bytes() for path in zone.iterdir()} == {"file": b"old"}


def test_a_writer_that_is_killed_leaves_one_whole_content(zone: Path, root: OpenDirectory, portable: bool) -> None:
    contents = {letter * 300_000 for letter in "ab"}
    (zone / "file").write_text("a" * 300_000)
    code = """
for turn in range(10**9):
    root.write("file", b"ab"[turn % 2 : turn % 2 + 1] * 300_000, instead_of=root.stat("file"), most=10**6)
    print(turn, flush=True)
"""
    seen: set[str] = set()
    random = Random(2)  # noqa: S311 - to kill at different moments
    for _ in range(8):
        with child(code, zone, portable) as process:
            assert process.stdout is not None
            for _ in range(random.randrange(1, 12)):
                assert process.stdout.readline()
                found = (zone / "file").read_text()
                assert found in contents
                seen.add(found)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        assert (zone / "file").read_text() in contents
        assert {path.name for path in zone.iterdir()} - set(own_names(zone)) == {"file"}
    assert seen == contents
    replace(root, "file", b"goes on")


FILTER = """
class Line(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]

class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Line))]

# Load the number of the system call; if it is openat2, do as the argument says; else allow it.
lines = (Line * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, int(sys.argv[3])), (0x06, 0, 0, 0x7FFF0000))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(4, lines)), 0, 0) == 0, ctypes.get_errno()
root.write("folder/file", b"data", instead_of=None, most=10)
print(root.read("folder/file", 10).data)
os.rename(sys.argv[1] + "/folder", sys.argv[1] + "/moved")
os.symlink("moved", sys.argv[1] + "/folder")
try:
    root.read("folder/file", 10)
except ToolError as error:
    print(error)
"""
KILL = 0x80000000
REFUSE = 0x00050000


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_where_the_call_of_the_kernel_is_missing_or_filtered_names_are_walked(
    zone: Path, number: int, portable: bool
) -> None:
    with child(FILTER, zone, portable, REFUSE | number) as process:
        out, err = process.communicate(timeout=60)
    assert out.splitlines() == ["b'data'", f"'folder/file' {LINK}"], err


def test_the_call_of_the_kernel_is_used_unless_told_otherwise(zone: Path, portable: bool) -> None:
    with child(FILTER, zone, portable, KILL) as process:
        process.communicate(timeout=60)
    assert process.returncode == (0 if portable else -signal.SIGSYS)
