"""Where a path really leads: held against a tree made by hand, the kernel, and those who move things meanwhile."""

import ctypes
import errno
import os
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from sayso.core.realpath import resolve
from sayso.errors import PathEscape

NOBODY = 65534


def outcome(path: str, root: str | None) -> str | int:
    """Where sayso arrives, or the number of its error."""
    try:
        return resolve(path, beneath=root)
    except PathEscape:
        return errno.EXDEV
    except OSError as error:
        return error.errno or 0


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A real folder, whatever links the system has above it."""
    return Path(resolve(str(tmp_path)))


@pytest.fixture
def root(base: Path) -> Path:
    """A tree with every kind of link."""
    (base / "outside").mkdir()
    (base / "outside" / "secret").touch()
    (base / "root" / "folder" / "deeper").mkdir(parents=True)
    for name in ("file", "folder/inner"):
        (base / "root" / name).touch()
    links = {
        "to_file": "file",
        "to_folder": "folder",
        "to_slashed": "folder/",
        "to_slashed_file": "file/",
        "folder/to_sibling": "../file",
        "chain": "chain_2",
        "chain_2": "to_folder/to_sibling",
        "dangling": "folder/nowhere",
        "dangling_deep": "nowhere/at/all",
        "dangling_back": "nowhere/../file",
        "absolute": str(base / "root" / "file"),
        "absolute_out": str(base / "outside" / "secret"),
        "outward": "../outside/secret",
        "outward_dangling": "../outside/nowhere",
        "out_and_back": "../root/file",
        "up": "..",
        "loop": "loop",
        "loop_a": "loop_b",
        "loop_b": "folder/../loop_a",
    }
    for name, text in links.items():
        (base / "root" / name).symlink_to(text)
    return base / "root"


@pytest.mark.parametrize(
    ("path", "real"),
    [
        (".", "."),
        ("file", "file"),
        ("./folder/./inner", "folder/inner"),
        ("folder/", "folder"),
        ("folder//inner", "folder/inner"),
        ("folder/deeper/../../file", "file"),
        ("folder/..", "."),
        ("to_file", "file"),
        ("to_folder/inner", "folder/inner"),
        ("to_slashed", "folder"),
        ("to_folder/..", "."),
        ("to_folder/to_sibling", "file"),
        ("chain", "file"),
        ("new", "new"),
        ("new/", "new"),
        ("folder/new/./newer", "folder/new/newer"),
        ("to_folder/new", "folder/new"),
        ("dangling", "folder/nowhere"),
        ("dangling_deep", "nowhere/at/all"),
    ],
)
def test_a_path_that_stays_beneath_is_resolved_whether_its_end_exists_or_not(root: Path, path: str, real: str) -> None:
    assert resolve(path, beneath=str(root)) == str(root / real)
    assert resolve(f"{root}/{path}") == str(root / real)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../root/file",
        "folder/../../root/file",
        "folder/deeper/../../../outside/secret",
        "up",
        "up/root/file",
        "to_folder/../../root",
        "absolute",
        "absolute_out",
        "outward",
        "outward_dangling",
        "out_and_back",
        "/",
    ],
)
def test_a_path_that_leads_out_at_any_point_is_an_escape(root: Path, path: str) -> None:
    with pytest.raises(PathEscape):
        resolve(path, beneath=str(root))
    with pytest.raises(PathEscape):
        resolve(path + "/", beneath=str(root))


def test_an_absolute_path_within_is_still_an_escape(root: Path) -> None:
    with pytest.raises(PathEscape):
        resolve(f"{root}/file", beneath=str(root))


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("root/absolute", "root/file"),
        ("root/absolute_out", "outside/secret"),
        ("root/outward", "outside/secret"),
        ("root/outward_dangling", "outside/nowhere"),
        ("root/up/outside", "outside"),
        ("root/out_and_back", "root/file"),
        ("root/../outside/new", "outside/new"),
    ],
)
def test_without_a_folder_to_stay_beneath_every_link_is_followed(root: Path, path: str, real: str) -> None:
    assert resolve(f"{root.parent}/{path}") == str(root.parent / real)


def test_the_folder_above_the_topmost_is_itself() -> None:
    assert resolve("/") == resolve("/..") == resolve("/../.././") == "/"
    assert resolve("/sayso-nowhere/x") == resolve("sayso-nowhere/x", beneath="/") == "/sayso-nowhere/x"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", errno.ENOENT),
        ("new/../file", errno.ENOENT),
        ("folder/new/..", errno.ENOENT),
        ("dangling/../file", errno.ENOENT),
        ("dangling_back", errno.ENOENT),
        ("file/..", errno.ENOTDIR),
        ("file/../file", errno.ENOTDIR),
        ("file/.", errno.ENOTDIR),
        ("file/", errno.ENOTDIR),
        ("file/new", errno.ENOTDIR),
        ("to_file/new", errno.ENOTDIR),
        ("to_slashed_file", errno.ENOTDIR),
        ("loop", errno.ELOOP),
        ("loop/new", errno.ELOOP),
        ("loop_a", errno.ELOOP),
        ("x" * 256, errno.ENAMETOOLONG),
        ("folder/" + "x" * 256 + "/new", errno.ENAMETOOLONG),
        ("nul\0", errno.EINVAL),
        ("half \ud800", errno.EILSEQ),
    ],
)
def test_what_cannot_be_resolved_is_an_error_and_never_a_guess(root: Path, path: str, code: int) -> None:
    assert outcome(path, str(root)) == code
    assert outcome(f"{root}/{path}" if path else "", None) == code


def test_a_relative_path_needs_a_folder_to_stay_beneath() -> None:
    with pytest.raises(OSError, match="not absolute"):
        resolve("file")


@pytest.mark.parametrize("beneath", ["", "tmp", "/tmp/../etc", "/tmp/.", "/tmp/", "/nul\0"])  # noqa: S108 - only read
def test_the_folder_to_stay_beneath_has_to_be_a_real_path(beneath: str) -> None:
    assert outcome("file", beneath) in {errno.EINVAL, errno.ENOENT}


def test_as_many_links_are_followed_as_the_kernel_follows(base: Path) -> None:
    (base / "file").touch()
    (base / "0").symlink_to("file")
    for number in range(1, 41):
        (base / str(number)).symlink_to(str(number - 1))
    assert resolve("39", beneath=str(base)) == str(base / "file")
    assert (base / "39").exists()
    assert outcome("40", str(base)) == errno.ELOOP
    with pytest.raises(OSError, match="Too many levels"):
        (base / "40").stat()


# Handles.


@contextmanager
def somebody_without_rights() -> Generator[None]:
    """Root may enter every folder, so be nobody for a moment."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_a_folder_that_may_not_be_entered_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shut = Path(resolve(folder)) / "shut"
        shut.parent.chmod(0o755)
        shut.mkdir(mode=0)
        with somebody_without_rights():
            assert outcome("shut/x", str(shut.parent)) == outcome(f"{shut}/x", None) == errno.EACCES


def deep_folder(root: Path, names: list[str]) -> int:
    """Make folders in folders, deeper than any path can say, and return a handle on the last."""
    handle = os.open(root, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=handle)
        below = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    return handle


def test_a_path_longer_than_the_kernel_takes_is_resolved_to_its_end(root: Path) -> None:
    names = ["d" * 250] * 20
    bottom = deep_folder(root, names)
    os.symlink("../" * 20 + "file", "inward", dir_fd=bottom)
    os.symlink("../" * 21 + "outside/secret", "outward", dir_fd=bottom)
    os.close(bottom)
    deep = "/".join(names)
    with pytest.raises(OSError, match="too long"):
        (root / deep).stat()
    assert resolve(deep, beneath=str(root)) == resolve(f"{root}/{deep}") == f"{root}/{deep}"
    assert resolve(f"{deep}/inward", beneath=str(root)) == str(root / "file")
    assert resolve(f"{root}/{deep}/outward") == str(root.parent / "outside" / "secret")
    with pytest.raises(PathEscape):
        resolve(f"{deep}/outward", beneath=str(root))


@pytest.mark.parametrize("swapped", ["ws/zone", "ws"])
def test_a_root_that_was_replaced_by_a_link_is_no_root_any_more(base: Path, swapped: str) -> None:
    (base / "ws" / "zone").mkdir(parents=True)
    (base / "elsewhere" / "zone").mkdir(parents=True)
    root = str(base / "ws" / "zone")
    assert resolve("x", beneath=root) == f"{root}/x"
    (base / swapped).rename(base / "aside")
    (base / swapped).symlink_to(base / "elsewhere" / ("zone" if swapped == "ws/zone" else ""))
    assert Path(root).is_dir()
    assert outcome("x", root) in {errno.ENOTDIR, errno.ELOOP}


def test_a_folder_that_is_replaced_by_a_link_leads_elsewhere_the_next_time(root: Path) -> None:
    assert resolve("folder/inner", beneath=str(root)) == str(root / "folder" / "inner")
    (root / "folder").rename(root / "aside")
    (root / "folder").symlink_to("aside")
    assert resolve("folder/inner", beneath=str(root)) == str(root / "aside" / "inner")
    (root / "folder").unlink()
    (root / "folder").symlink_to("../outside")
    with pytest.raises(PathEscape):
        resolve("folder/inner", beneath=str(root))


def test_a_folder_that_is_moved_on_the_way_never_leads_to_a_wrong_name(base: Path) -> None:
    way = "/d" * 100  # long, so that there is time to move the folder while somebody is in it
    (base / f"home/sub{way}").mkdir(parents=True)
    (base / "other").mkdir()
    (base / "other" / "x").touch()
    (base / "home" / "x").symlink_to("../plain")
    (base / "plain").touch()
    enough = Event()

    def move() -> None:
        while not enough.is_set():
            (base / "home" / "sub").rename(base / "other" / "sub")
            (base / "other" / "sub").rename(base / "home" / "sub")

    mover = Thread(target=move)
    mover.start()
    try:
        seen = Counter(outcome(f"home/sub{way}{'/..' * 101}/x", str(base)) for _ in range(200))
    finally:
        enough.set()
        mover.join()
    assert seen.keys() <= {str(base / "plain"), errno.ENOENT, errno.EAGAIN}


def test_no_handle_is_left_open(root: Path) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    for path in ("folder/deeper/../inner", "chain", "absolute", "loop", "file/x", "new/../x", ".."):
        outcome(path, str(root))
        outcome(f"{root}/{path}", None)
    for missing in (f"{root}/new", f"{root}/file", f"{root}/to_folder"):
        outcome("x", missing)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


# Links of the kernel's own, whose text only looks like a path.


@pytest.mark.parametrize("name", ["cwd", "root", "exe", "fd/{file}", "fd/{pipe}", "ns/net"])
def test_a_magic_link_is_refused_whatever_its_text_says(root: Path, name: str) -> None:
    file = os.open(root / "file", os.O_RDONLY)
    ends = os.pipe()
    try:
        path = f"{os.getpid()}/{name.format(file=file, pipe=ends[0])}"
        for code in (outcome(path, "/proc"), outcome(f"/proc/{path}", None), outcome(f"/proc/{path}/x", None)):
            assert code == errno.ELOOP
    finally:
        for handle in (file, *ends):
            os.close(handle)


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/environ"])
def test_a_way_through_the_links_of_proc_is_refused(path: str) -> None:
    assert outcome(path, None) == errno.ELOOP


# The kernel is the judge of what a path means.


class How(ctypes.Structure):
    """The `struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


LIBC = ctypes.CDLL(None, use_errno=True)
OPENAT2 = 437  # on every architecture but alpha
BENEATH = 0x08 | 0x02  # RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS


def kernel(path: str, root: int | None) -> str | int:
    """Where the kernel arrives, or the number of its error."""
    how = How(flags=os.O_PATH | os.O_CLOEXEC, resolve=0 if root is None else BENEATH)
    folder = ctypes.c_long(-100 if root is None else root)  # AT_FDCWD
    while True:
        handle = LIBC.syscall(
            ctypes.c_long(OPENAT2), folder, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if handle >= 0:
            try:
                return str(Path(f"/proc/self/fd/{handle}").readlink())
            finally:
                os.close(handle)
        code = ctypes.get_errno()
        if code == errno.ENOSYS:
            pytest.fail("this kernel has no openat2, so nothing here was compared; run the tests on Linux 5.6 or later")
        if code != errno.EAGAIN:
            return code


def random_path(random: Random, longest: int) -> str:
    names = random.choices(["a", "b", "c", "d", "..", ".", ""], [4, 4, 4, 2, 3, 1, 1], k=random.randint(1, longest))
    return "/".join(names).lstrip("/") + random.choice(["", "", "", "/"]) or "."


def plant(random: Random, base: Path) -> Path:
    """Grow a small random tree of folders, files and links of all kinds."""
    root = base / "root"
    for folder in ("root", "outside/a", "outside/b"):
        (base / folder).mkdir(parents=True)
    folders = [root]
    for _ in range(random.randint(2, 14)):
        place = random.choice(folders) / random.choice("abcd")
        if os.path.lexists(place):
            continue
        match random.choice(["folder", "folder", "file", "link", "link", "absolute", "loop"]):
            case "folder":
                place.mkdir()
                folders.append(place)
            case "file":
                place.touch()
            case "link":
                place.symlink_to(random_path(random, 4))
            case "absolute":
                place.symlink_to(f"{random.choice([root, base / 'outside', '/'])}/{random_path(random, 2)}")
            case _:
                place.symlink_to(place.name)
    return root


def compare(path: str, root: Path, handle: int | None, seen: Counter[str]) -> None:
    theirs = kernel(path, handle)
    mine = outcome(path, None if handle is None else str(root))
    seen[errno.errorcode[theirs] if isinstance(theirs, int) else "opened"] += 1
    if theirs == errno.ENOENT and isinstance(mine, str):
        assert not os.path.lexists(mine), f"{path} exists, and the kernel does not find it"
        assert mine == os.path.realpath(mine), f"{path} is resolved to a path that leads elsewhere"
        assert handle is None or Path(mine).is_relative_to(root), f"{path} is resolved to a path outside"
    else:
        assert mine == theirs, f"{path}: sayso says {mine}, the kernel {theirs}"


def test_every_path_of_random_trees_leads_where_the_kernel_says(base: Path) -> None:
    beneath: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    for number in range(300):
        random = Random(number)  # noqa: S311 - the same trees every time
        root = plant(random, base / str(number))
        handle = os.open(root, os.O_PATH)
        try:
            for _ in range(25):
                path = random_path(random, 6)
                compare(path, root, handle, beneath)
                compare(f"{root}/{path}", root, None, anywhere)
        finally:
            os.close(handle)
    for kind in ("opened", "EXDEV", "ELOOP", "ENOTDIR", "ENOENT"):
        assert beneath[kind] > 100, f"too few paths that end in {kind} to compare: {beneath}"
        assert anywhere[kind] > 100 or kind == "EXDEV", f"too few paths that end in {kind} to compare: {anywhere}"
