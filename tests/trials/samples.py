"""Sample files of the trials: something for each program to read, in one folder that is a git repository, too."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shlex
import shutil
import sqlite3
import struct
import subprocess
import wave
import zlib
from collections.abc import Mapping
from pathlib import Path

_MANIFEST = (
    '{"name": "sample", "version": "1.0.0", "private": true, "main": "program.js",'
    ' "scripts": {"test": "true", "start": "true"}}\n'
)
_LOCK = (
    '{"name": "sample", "version": "1.0.0", "lockfileVersion": 3, "requires": true,'
    ' "packages": {"": {"name": "sample", "version": "1.0.0"}}}\n'
)
_UV_LOCK = (
    'version = 1\nrequires-python = ">=3.9"\n\n'
    '[[package]]\nname = "sample"\nversion = "1.0.0"\nsource = { virtual = "." }\n'
)
_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>sample</artifactId>
<version>1</version></project>
"""
_FILES: Mapping[str, str] = {
    "in.txt": "one 1\ntwo 2\nthree 3\none 1\n",
    "other.txt": "one 1\ntwo 2\nfour 4\n",
    "sorted.txt": "four 4\none 1\ntwo 2\n",
    "numbers.txt": "1\n2\n3\n",
    "data.json": '{"a": [1, 2], "b": {"c": "x"}}\n',
    "data.yaml": "---\na: 1\nb: [x, y]\n",
    "data.csv": "a,b\n1,2\n3,4\n",
    "data.sql": "SELECT a FROM t;\n",
    "page.xml": "<a><b>1</b></a>\n",
    "page.html": "<!doctype html>\n<title>x</title>\n<p>text</p>\n",
    "style.css": "a { color: red; }\n",
    "page.md": "# Title\n\nText.\n",
    "change.patch": "--- a/in.txt\n+++ b/in.txt\n@@ -1,2 +1,3 @@\n one 1\n+new\n two 2\n",
    "sums.txt": "d41d8cd98f00b204e9800998ecf8427e  empty.txt\n",
    "empty.txt": "",
    "module.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
    "test_module.py": "def test_add() -> None:\n    assert 1 + 1 == 2\n",
    "requirements.txt": "",
    "pyproject.toml": '[project]\nname = "sample"\nversion = "1.0.0"\nrequires-python = ">=3.9"\n',
    "uv.lock": _UV_LOCK,
    "program.js": "console.log(1);\n",
    "program.ts": "export const one: number = 1;\n",
    "program.test.js": "test('adds', () => {});\n",
    "package.json": _MANIFEST,
    "package-lock.json": _LOCK,
    "tsconfig.json": '{"files": ["program.ts"]}\n',
    "eslint.config.mjs": "export default [];\n",
    "program.c": "int main(void) { return 0; }\n",
    "cmd/one/main.go": "package main\n\nfunc main() {}\n",
    "cmd/one/main_test.go": 'package main\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {}\n',
    "main.go": "package main\n\nfunc main() {}\n",
    "go.mod": "module example.org/sample\n\ngo 1.19\n",
    "Cargo.toml": '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "sample"\nversion = "0.1.0"\n',
    "src/main.rs": "fn main() {}\n",
    "Main.java": "class Main { public static void main(String[] args) {} }\n",
    "pom.xml": _POM,
    "build.xml": '<project default="all"><target name="all"/></project>\n',
    "program.rb": "puts 1\n",
    "Rakefile": "task :default\n",
    "Gemfile": "source 'https://rubygems.org'\n",
    "Gemfile.lock": "GEM\n  remote: https://rubygems.org/\n  specs:\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n",
    "program.php": "<?php\necho 1;\n",
    "composer.json": '{"name": "example/sample", "description": "x", "license": "MIT", "require": {}}\n',
    "program.pl": "print 1;\n",
    "script.sh": "#!/bin/sh\necho hello\n",
    "Makefile": "all:\n\t@echo made\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(sample NONE)\n",
    "meson.build": "project('sample')\n",
    "build.ninja": "rule copy\n  command = true\nbuild all: phony\n",
    "main.tf": 'variable "x" {\n  default = 1\n}\n',
    "Dockerfile": "FROM scratch\n",
    "compose.yaml": "services:\n  one:\n    image: example\n",
    "playbook.yaml": "---\n- name: Play\n  hosts: localhost\n  gather_facts: false\n  tasks: []\n",
    "inventory.ini": "[all]\nlocalhost ansible_connection=local\n",
    "tox.ini": "[tox]\nenvlist = py\nskipsdist = true\n[testenv]\ncommands = true\n",
    "noxfile.py": "import nox\n\n\n@nox.session(venv_backend='none')\ndef tests(session):\n    session.run('true')\n",
    ".pre-commit-config.yaml": "repos: []\n",
    "folder/inner.txt": "inside\n",
    # Whoever loads one of these runs what is in it.
    "evil.py": "open('pwned', 'w').close()\n",
    "evil.js": "require('fs').writeFileSync('pwned', '');\n",
    "evil.sh": "#!/bin/sh\n: > pwned\n",
    "evil.rb": "File.write('pwned', '')\n",
}
_COMMANDS = (
    "openssl req -x509 -newkey ed25519 -nodes -keyout key.pem -out cert.pem -subj /CN=x",
    "ar rc lib.a program.c",
    "ssh-keygen -q -t ed25519 -N '' -C x -f id",
)
_PROGRAMS = ("script.sh", "evil.sh")
_LIBRARY = '#include <fcntl.h>\n__attribute__((constructor)) static void load(void) { creat("pwned", 0600); }\n'


def make_samples(folder: Path, home: Path) -> None:
    """Write the sample files, and a home with a repository that the samples' repository has as its remote."""
    for name, text in _FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name in _PROGRAMS:
        (folder / name).chmod(0o755)
    home.mkdir()
    _make_binaries(folder)
    _make_repository(folder, home / "remote.git")


def _make_binaries(folder: Path) -> None:
    database = sqlite3.connect(folder / "data.db")
    with database:
        database.execute("CREATE TABLE t (a, b)")
        database.execute("INSERT INTO t VALUES (1, 'x')")
    database.close()
    (folder / "image.png").write_bytes(_png())
    with wave.open(str(folder / "sound.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    text = (folder / "in.txt").read_bytes()
    for name, pack in {"text.gz": gzip.compress, "text.bz2": bz2.compress, "text.xz": lzma.compress}.items():
        (folder / name).write_bytes(pack(text))
    shutil.make_archive(str(folder / "archive"), "tar", folder, "folder")
    shutil.make_archive(str(folder / "archive"), "gztar", folder, "folder")
    shutil.make_archive(str(folder / "archive"), "zip", folder, "folder")
    for command in _COMMANDS:
        if shutil.which(command.split()[0]):
            subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)
    compiler = shutil.which("cc")
    if compiler is not None:
        source = folder / "library.c"
        source.write_text(_LIBRARY, encoding="utf-8")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", folder / "evil.so", source], check=False, capture_output=True
        )
        subprocess.run([compiler, "-o", folder / "program", folder / "program.c"], check=False, capture_output=True)
        source.unlink()


def _png() -> bytes:
    """Return a picture of four points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    points = zlib.compress(b"\0" + bytes(6) + b"\0" + bytes(6))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", points) + chunk(b"IEND", b"")


def _make_repository(folder: Path, remote: Path) -> None:
    """Make two commits on main and one on another branch, a tag, a stash, a note, a remote, and changed files."""

    def git(*arguments: str) -> None:
        settings = ("user.name=t", "user.email=t@example.org", "commit.gpgsign=false", "core.hooksPath=/dev/null")
        given = [word for setting in settings for word in ("-c", setting)]
        subprocess.run(["git", *given, "-C", str(folder), *arguments], check=True, capture_output=True)  # noqa: S607 - any git

    git("init", "-q", "-b", "main")
    (folder / ".git" / "info" / "exclude").write_text("evil.so\nprogram\n.hg\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "first")
    git("branch", "side")
    (folder / "other.txt").write_text("changed\n", encoding="utf-8")
    git("commit", "-qam", "second")
    git("tag", "v1")
    git("notes", "add", "-m", "a note")
    git("checkout", "-q", "side")
    (folder / "side.txt").write_text("side\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "on the side")
    git("checkout", "-q", "main")
    git("init", "-q", "--bare", str(remote))
    git("remote", "add", "origin", "../home/remote.git")
    git("push", "-q", str(remote), "main", "side", "v1")
    (folder / "numbers.txt").write_text("3\n", encoding="utf-8")
    git("stash", "-q")
    (folder / "in.txt").write_text("one 1\ntwo 2\n", encoding="utf-8")
    (folder / "untracked.txt").write_text("new\n", encoding="utf-8")
    mercurial = shutil.which("hg")
    if mercurial is not None:
        for given in (["init"], ["commit", "-qA", "-m", "first", "-u", "t", "in.txt"]):
            subprocess.run([mercurial, *given], cwd=folder, check=True, capture_output=True)
