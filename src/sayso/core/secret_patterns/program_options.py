"""Passwords on command lines that only the program's manual tells from other options: `curl -u ann:x`, `mysql -px`.

Tests: tests/core/secret_patterns/test_corpus.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sayso.core.secret_patterns.token_formats import Span, has_any

_FARTHEST = 400  # characters before an option in which its program is looked for
_OPTION = re.compile(
    r"(?<=[\s\"'])(?:-(?P<letter>[A-Za-z])|--?(?P<long>user|proxy-user|auth|userpwd)\b)(?P<gap>[ \t=]{0,4})"
)
_WORD = re.compile(r"\"([^\"\n]+)|'([^'\n]+)|([^\s\"';&|<>]+)")
_ENDS = re.compile(r"[;|&\n(]")

# Letter, and the programs that take a password behind it; `+` if it is glued to the letter.
_PASSWORD = {
    "p+": "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlsh mariadb mariadb-dump mariadb-admin 7z rar unrar",
    "p": (
        "sshpass login twine snowsql mongo mongosh mongodump mongorestore mongoexport mongoimport cqlsh rdesktop "
        "useradd usermod"
    ),
    "P": "sqlcmd bcp isql zip unzip mosquitto_pub mosquitto_sub ipmitool ssh-keygen",
    "a": "redis-cli",
    "w": "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd add-generic-password add-internet-password",
    "N": "ssh-keygen",
    "k": "openssl",
    "A": "snmpwalk snmpget snmpset",
    "X": "snmpwalk snmpget snmpset",
    "b": "secret",
}
_WITH_USER = {
    "u": (":", "curl wget2 curlie"),
    "U": (":", "curl curlie"),
    "user": (":", "curl curlie etcdctl"),
    "proxy-user": (":", "curl curlie"),
    "a": (":", "http https httpie xh xhs"),
    "auth": (":", "http https httpie xh xhs"),
}
# Programs that take a password in the same word as its letter.
_GLUED = frozenset(
    {"sshpass", "unzip", "zip", "twine", "sqlcmd", "bcp", "ldapsearch", "ldapmodify", "ldapadd", "ldapdelete"}
)
_USER_BEFORE = {"u": (",", "lftp"), "U": ("%", "smbclient rpcclient net winexe")}
_PROGRAMS = {letter: frozenset(names.split()) for letter, names in _PASSWORD.items()}
_BY_MARK = [names.split() for _, names in (*_WITH_USER.values(), *_USER_BEFORE.values())]
# A list without any of these words is no command line with a password.
PROGRAMS = frozenset[str]().union(*_PROGRAMS.values(), *_BY_MARK) | {
    "htpasswd", "add_user", "change_password", "vault", "wpa_passphrase", "sqlplus"
}  # fmt: skip

_ELSEWHERE = re.compile(
    r"\becho[ \t]{1,4}(?:-n[ \t]{1,4})?[\"']?(?P<piped>[^\s\"'|$][^\"'|\n]{0,200}?)[\"']?[ \t]{0,4}\|[^|\n]{0,80}?"
    r"(?:--password-stdin|--with-token|sudo[ \t]{1,4}-S|chpasswd|passwd\b|cryptsetup)"
    r"|(?<![\w:-])pass:(?P<openssl>[^\s\"']+)"
    r"|\bhtpasswd[ \t]{1,4}-\w{0,6}b\w{0,6}[ \t]{1,4}\S{1,200}[ \t]{1,4}\S{1,80}[ \t]{1,4}(?P<htpasswd>\S+)"
    r"|\b(?:add_user|change_password)[ \t]{1,4}\S{1,80}[ \t]{1,4}(?P<rabbit>\S+)"
    r"|\bvault[ \t]{1,4}login[ \t]{1,4}(?P<vault>[^\s-]\S+)"
    r"|\bcargo[ \t]{1,4}login[ \t]{1,4}(?P<crates>(?=\S{0,80}\d)\S+)"
    r"|(?:\A|(?<=\n)|(?<=set ))(?:requirepass|masterauth)[ \t]{1,4}(?P<redis>\S+)"
    r"|\bmc[ \t]{1,4}alias[ \t]{1,4}set(?:[ \t]{1,4}\S{1,120}){3}[ \t]{1,4}(?P<alias>[^\s-]\S*)"
    r"|\bwpa_passphrase[ \t]{1,4}\S{1,80}[ \t]{1,4}(?P<wpa>\S+)"
    r"|\bnet[ \t]{1,4}user[ \t]{1,4}\w{1,80}[ \t]{1,4}(?P<windows>[^\s/]\S*)"
    r"|\bnet[ \t]{1,4}use[ \t][^\n|;]{0,120}?/user:\S{1,80}[ \t]{1,4}(?P<share>[^\s/]\S*)"
    r"|\bnet[ \t]{1,4}use[ \t]{1,4}\S{1,120}[ \t]{1,4}(?P<mapped>[^\s/\\]\S*)[ \t]{1,4}/user:"
    r"|(?<=\s)/p:(?P<rdp>\S+)"
    r"|\bsecrets?[ \t]{1,4}(?:set|put|add|create)[ \t]{1,4}[^\n;|]{1,120}?[ \t](?:--(?:body|value)[ =]|-b[ =]?)[\"']?"
    r"(?P<body>[^\s\"']+)"
    r"|\bSecureString\b[^\n;|]{0,120}?[ \t]--value[ =][\"']?(?P<parameter>[^\s\"']+)"
    r"|[ \t]--value[ =][\"']?(?P<before_type>[^\s\"']+)(?=[^\n;|]{0,120}\bSecureString\b)"
    r"|(?i:pass|secret|token|login)[^\n;|]{0,120}?<<<[ \t]{0,4}[\"']?(?P<here>[^\s\"']+)"
    r"|\bsqlplus[ \t]{1,4}[\w-]{1,40}/(?P<oracle>[^\s@]+)@"
    r"|(?:\bmachine\s{1,4}\S{1,120}|\bdefault)\s{1,8}login\s{1,4}\S{1,120}\s{1,8}(?:account\s{1,4}\S{1,80}\s{1,8})?"
    r"password\s{1,4}(?P<netrc>\S+)"
    r"|\b[\w.*-]{1,80}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<pgpass>[^\s\"'>]+)(?=[^\n]{0,40}\.pgpass)"
)
COMMAND_HINTS = (
    "pass", "login", "echo ", "vault", "net use", "securestring", "masterauth", "alias set", "/p:", "sqlplus",
    "add_user", "secret", "<<<",
)  # fmt: skip


def find_in_commands(text: str, lower: str) -> Iterator[Span]:
    """Yield where a text holds a command line with a password; `lower` is the text in lower case."""
    if " " not in text:
        return
    if " -" in text or "\n-" in text:
        yield from _in_options(text)
    if has_any(COMMAND_HINTS, lower):
        for found in _ELSEWHERE.finditer(text):
            if not found[found.lastgroup or 0].startswith(("$", "-", "<")):
                yield found.span(found.lastgroup or 0)


def _in_options(text: str) -> Iterator[Span]:
    for found in _OPTION.finditer(text):
        letter = found["letter"] or found["long"]
        if letter not in _PROGRAMS and letter not in _WITH_USER and letter != "p":
            continue
        words = _command_before(text, found.start())
        value = _WORD.match(text, found.end())
        if value is None or value[0].startswith(("$", "-")) or not words:
            continue
        at, end = value.span(value.lastindex or 0)
        start = _password_start(letter, bool(found["gap"]), words, text[at:end])
        if start is not None:
            yield at + start, end


def _command_before(text: str, at: int) -> frozenset[str]:
    before = _ENDS.split(text[max(0, at - _FARTHEST) : at])[-1]
    return frozenset(word.strip("\"',[").rpartition("/")[2] for word in before.split())


def _password_start(letter: str, gap: bool, words: frozenset[str], value: str) -> int | None:  # noqa: FBT001
    """Return where the password begins in an option's value; `None` if this program has none there."""
    if not gap and letter == "p" and words & _PROGRAMS["p+"]:
        return 0
    if words & _PROGRAMS.get(letter, frozenset()) and (gap or words & _GLUED):
        return 0
    for table in (_WITH_USER, _USER_BEFORE):
        mark, programs = table.get(letter, ("", ""))
        if mark and mark in value and not words.isdisjoint(programs.split()):
            start = value.index(mark) + 1
            return start if value[start:] and not value.startswith("$", start) else None
    return None
