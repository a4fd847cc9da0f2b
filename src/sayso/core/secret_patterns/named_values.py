"""Values in a text that stand beside the name of a secret: assignments, headers, flags, elements and pairs.

Source text is full of such names, so a value that is plainly an expression, a type or a placeholder is left.

Tests: tests/core/secret_patterns/test_corpus.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sayso.core.secret_patterns.names import Secrecy, looks_random, secrecy, words
from sayso.core.secret_patterns.token_formats import Span, has_any

# A text without any of these has no name of a secret.
NAME_HINTS = (
    "key", "pass", "token", "secret", "pw", "auth", "cred", "sig", "cookie", "pat", "code", "pin", "otp", "sess", "sid",
    "jwt", "dsn", "psk", "conn", "mnemonic", "seed", "salt", "hmac", "cv", "bearer",
    "srf", "kennwort", "contrase", "senha",
)  # fmt: skip
SCHEME_HINTS = ("identified", "basic ", "ssws", "bot ")
SET_HINTS = (" set", "setx", "literal", "kv put", "poetry config", "composer config", "pdm config")

_NAMED = re.compile(
    r"(?<![\w.$-])(?P<name>[\w.$-]++)(?P<close>[\\\"'`\]]{0,5})(?P<gap>[ \t]{0,4})"
    r"(?P<sep>:=|=>|={2,3}|!={1,2}|[=:>])[ \t]{0,4}"
)
_TYPED = re.compile(r"[A-Za-z_][\w.]{0,30}(?:\[[\w., \[\]|]{0,40}\])?(?: \| None)?[ \t]{0,2}=[ \t]{0,2}(?=[\"'rbuf])")
_FLAG = re.compile(r"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{2,60}+)[ \t]{1,4}(?=[^\s-]|-[^\s-]*[0-9])")
_PAIR = re.compile(
    r"(?i:name|key|variable|header)[\\\"']{0,4}[ \t]{0,4}[:=][ \t]{0,4}[\\\"']{0,4}(?P<name>[\w.-]{2,80}+)[\\\"']{0,4}"
    r",?\s{1,20}"
    r"[\\\"']{0,4}(?i:value)[\\\"']{0,4}[ \t]{0,4}[:=][ \t]{0,4}"
)
_SPOKEN = re.compile(
    r"(?i:\b(?:password|passphrase|passcode|passwd|passwort|pwd?|token|secret|api[ _-]?key|pin|identified))\s{1,4}"
    r"(?:(?i:(?:is|was|ist):?|by|=)\s{1,4})?"
)
_SET = re.compile(
    r"(?:\b(?:ENV|setenv|setx|set -[gUx]{1,3}|configure set|config set|(?:poetry|composer|pdm) config)[ \t]{1,4}"
    r"(?P<name>[\w./:-]{2,120}+)[ \t]{1,4}"
    r"|(?:--from-literal[= ]|\bsecrets? set |\bkv put \S{1,100} )[\"']?[\w.-]{1,80}+=)"
)
_LOGIN = re.compile(  # a user and a password in a row
    r"(?i:\b(?:auth|creds?|credentials))[\"']?[ \t]{0,2}[=:][ \t]{0,2}[(\[][ \t]{0,2}"
    r"[\"'][^\"'\n]{0,80}[\"'],[ \t]{0,2}(?P<name>)(?=[\"'])"
)
_CALLED = re.compile(r"(?P<quote>[\"'])(?P<name>[\w.-]{2,80}+)(?P=quote)[ \t]{0,2},[ \t]{0,4}(?=[\"'])")
_COMPOUND = re.compile(r"(?<![\w.-])(?P<name>[A-Za-z][A-Za-z0-9]{0,40}+[_-][\w-]{1,60}+)[ \t]{1,4}(?=[^\s=:-]\S{7})")
_SCHEME = re.compile(
    r"\b(?i:bearer|basic|token|ssws|apikey|negotiate|splunk|genie[kK]ey|flyv1|bot|key)[ \t]{1,4}(?=\S{8})"
)
_LINE = re.compile(r"(?i:digest|oauth|aws4-hmac-sha256|signature|hawk)\s[^\n]*")

_QUOTED = re.compile(r"[rbufRBUF]{0,2}(?:\"((?:[^\"\\\n]|\\.)*+)|'((?:[^'\\\n]|\\.)*+)|`((?:[^`\\]|\\.)*+))")
_ESCAPED = re.compile(r"\\{1,3}[\"']([^\"'\\\n]*)")
_BLOCK = re.compile(r"[|>][+-]?[ \t]{0,4}\n(?P<indent>[ \t]{1,40})(?P<block>[^\n]*(?:\n(?P=indent)[^\n]*){0,40})")
_BARE = re.compile(r"(?:[^\s\"'`;&|<>,)}\]\\]|[,)}\]\\](?=[^\s\"'`;&|<>,)}\]\\])(?![\w.-]{1,40}[=:]))+")
_SHORTEST_PIN = 4
_JUDGED = 160  # characters of a value, or of the line before it, that are enough to judge it
_IN_QUERY = re.compile(r"[^\s&#\"'<>`\\]+")
_COOKIE = re.compile(r"[^\s\"'=;]{1,80}=[^\n\"']*")

_REFERENCE = re.compile(
    r"\$\{.*|\$\(.*|\$[A-Z_][A-Z0-9_]*|\$env:\w+|\{\{.*|\{[A-Za-z_][A-Za-z_.]*\}?|<[^>]*>|%\w+%|%\(\w+\)s|%[sdr]"
    r"|\[[A-Za-z _-]*\]?|(?:self|this|os\.environ|process\.env)[.\[][A-Za-z_.]+|@[\w-]*[./][\w./-]+|[*.x#?•…_-]+"
    r"|(?i:<?your[-_ ].*|.*[-_ ]here>?|env[.:].*|ref[+:].*|vault:.*|op://.*|arn:.*|file:.*)",
    re.DOTALL,
)
_EXPRESSION = re.compile(
    r"[A-Za-z_][A-Za-z_.:]{2,}[(\[{].*|[(\[{](?:[\"'\s$(\[{].*|[A-Za-z_.]*[:(\[]?)|(?:(?:self|this|os|process|config|cfg|conf"
    r"|settings|env|req|request|res|resp|response|args|opts|options|params|ctx|context|data|body|user|app|state|props|session"
    r"|credentials|event|var|local|module|input|inputs|secrets|github|steps|values|st|window|document|client|auth|account|row"
    r"|item|obj|result|kwargs|import|field|fields|std|crypto|models|types|typing|pydantic|serializers|sa|db|forms|z|t)"
    r"(?:\.|->|::|\?\.))[\w.?:>-]+[(\[]?.*",
    re.DOTALL,
)
_IDENTIFIER = re.compile(r"[A-Za-z_]+")
_INVENTED = re.compile(
    r"(?i)my|super|top|change|dev|test|admin|root|default|strong|very|some|demo|example|prod|initial|temp"
)
_PLAIN = words("""
    str string text int integer number float bool boolean bytes char varchar none null nil undefined any object
    array list dict true false yes no on off optional required secretstr token void unknown password email uuid
    include omit same-origin a an the is are was were be been it its in at of for from to by as with without and or
    not but if when while where which that this these those there here has have had will would can could may might
    must should shall do does did see use used using uses you your we our my they their he she one two each every
    all some more most less least minimum maximum min max only also then than so too very just again never always
    what who how why new old add added remove removed fix fixed update updated change changed set get returns return
    invalid valid expired missing wrong incorrect empty unset default auto automatic hidden disabled enabled basic
    bearer hmac jwt oauth oauth2 saml ldap sha256 md5 bcrypt argon2 aes rsa flag option argument value values field
    file files self await async const let var lambda function def class import type enum pass ok rotate rotated
    generate generated fetch load read parse validate verify check handle support implement improve refactor drop
    bump write
""")
_SLOT = re.compile(r"\$?\{+[^{}]*\}+|%\(\w+\)s|%s")  # of a template
_ATTRIBUTE = re.compile(r"[A-Za-z_]{1,40}(?:\??\.[A-Za-z_]{1,40})+")
_TYPE = re.compile(r"(?:[A-Z][a-z]+){2,6}|[a-z_]+_(?:str|string|info|param|value|type|node|obj)")
_LIKE_PASSWORD = re.compile(r"(?i)pass|pw|pin|phrase|secret|cred|mnemonic|seed")
_WITH_BLANKS = re.compile(r"(?i)auth|cookie|conn|dsn")
_MEANING = re.compile(r"[^\W_]")
_MIXED = re.compile(r"(?=[^/(]*[0-9])(?=[^/(]*[A-Za-z])[^/()\[\]=:]{6,}")
_MEASURE = re.compile(r"[0-9][0-9.,]*[a-zA-Z]{1,3}")  # as in a report of tests: `app/token 0.012s`
_SHORT_NUMBER = re.compile(r"-?[0-9_.,]{1,5}[kKMB%]?")
_NUMERIC = re.compile(r"(?i)pin|otp|pass|pw|cv|code")
_FOLDER = re.compile(r"(?:[/~.]|[A-Za-z]:\\).*")


def find_named(text: str, lower: str) -> Iterator[Span]:
    """Yield where a text holds a value beside the name of a secret; `lower` is the text in lower case."""
    if has_any(NAME_HINTS, lower):
        yield from _near_names(text, lower)
    if has_any(SCHEME_HINTS, lower):
        yield from _after_scheme(text)
        yield from _spoken(text)
    if has_any(SET_HINTS, lower):
        yield from _beside(_SET, text)


def _near_names(text: str, lower: str) -> Iterator[Span]:
    if "=" in text or ":" in text or ">" in text:
        yield from _assigned(text)
    if not (" " in text or "\n" in text or "\t" in text):
        return
    yield from _after_scheme(text)
    yield from _spoken(text)
    yield from _beside(_COMPOUND, text, mixed=True)
    if "-" in text:
        yield from _beside(_FLAG, text)
    if "," in text:
        yield from _beside(_CALLED, text, mixed=True)
        yield from _beside(_LOGIN, text)
    if "value" in lower:
        yield from _beside(_PAIR, text)
    if "ENV " in text:
        yield from _beside(_SET, text)


def _assigned(text: str) -> Iterator[Span]:
    end = 0
    for found in _NAMED.finditer(text):
        if found.start() < end or text.startswith("${", found.start() - 2):
            continue  # within a value, where another look would take quadratic time, or in a shell's `${NAME:-x}`
        level = max(secrecy(_last_part(found["name"])), _in_two_words(text, found.start(), found["name"]))
        if level is Secrecy.NONE or (found["sep"] == ">" and not _in_element(text, found)):
            continue
        if found["name"].lower().endswith("cookie") and (cookie := _COOKIE.match(text, found.end())):
            value = cookie.span()
        else:
            value = _value_after(text, found, level)
        if value:
            end = value[1]
            yield value


def _last_part(name: str) -> str:
    """Return `password` of `spring.datasource.password`, and `secret.key` of `app.secret.key`."""
    if "." not in name:
        return name
    *_, before, last = name.rsplit(".", 2)
    return f"{before}.{last}" if last in {"key", "keys", "value", "code", "string", "text", "header"} else last


def _in_element(text: str, found: re.Match[str]) -> bool:
    return text[found.start() - 1 : found.start()] == "<" and text[found.end() : found.end() + 1] not in {
        " ",
        "\n",
        "@",
        "",
    }


def _in_two_words(text: str, at: int, name: str) -> Secrecy:
    """Judge `API key`, of which only the second word is the name."""
    before = text[max(0, at - 12) : at]
    if not name.lower().startswith(("key", "code", "phrase", "string")) or before[-1:] != " ":
        return Secrecy.NONE
    return secrecy(f"{before.split()[-1]}_{name}") if before.split() else Secrecy.NONE


def _value_after(text: str, found: re.Match[str], level: Secrecy) -> Span | None:
    name, sep = found["name"], found["sep"]
    typed = _TYPED.match(text, found.end()) if sep == ":" else None
    at = _past_scheme(text, typed.end() if typed else found.end())
    tight = sep == "=" and not found["gap"] and found.end() == found.end("sep")
    asked = text[found.start() - 1 : found.start()] in {"?", "&"}
    if quoted := _quoted(text, at):
        is_one = not _closes(text, at) and _is_secret(text[slice(*quoted)], name, level, as_code=sep in {"==", "==="})
        return quoted if is_one else None
    if sep not in {"=", ":", ":=", ">"} or (asked and not tight):  # a comparison, an arrow or a mention
        return None
    pattern = _IN_QUERY if asked else _LINE if _LINE.match(text, at, at + _JUDGED) else _BARE
    bare = pattern.match(text, at, at + _JUDGED)
    if level is Secrecy.CODE and not tight and not (bare and _MIXED.fullmatch(bare[0])):
        level = Secrecy.WEAK
    as_code = not asked and not name.startswith("-") and not (name.isupper() and (tight or sep == ":"))
    if bare is None or (as_code and _is_prose(text, bare, name)):
        return None
    return _whole(pattern, text, at) if _is_secret(bare[0], name, level, as_code=as_code) else None


def _whole(pattern: re.Pattern[str], text: str, at: int) -> Span | None:
    found = pattern.match(text, at)
    return found.span() if found else None


def _closes(text: str, at: int) -> bool:
    """Whether a quote ends the text that the name is in, as in `"Password: "`, and begins no value."""
    line = text[max(0, at - _JUDGED) : at].rpartition("\n")[2]
    quote = text[at : at + 3].lstrip("rbufRBUF")[:1]
    after = text[(end := text.find(quote, at) + 1) : end + 1]
    if quote not in {'"', "'", "`"} or after not in set(")],;:+}. \n"):
        return False
    if quote == "'":
        return len(_LONE_QUOTE.findall(line)) % 2 == 1
    return line.count(quote) % 2 == 1


_LONE_QUOTE = re.compile(r"(?<![A-Za-z])'|'(?![A-Za-z])")
_LETTERS = re.compile(r"[A-Za-z]+")
_GOES_ON = re.compile(r"(?:,? |/)[A-Za-z`\"']|[,;)]?\.")


def _is_prose(text: str, bare: re.Match[str], name: str) -> bool:
    """Whether a sentence goes on behind the name, as in `tokens: identity, roles and expiry`; not for passwords."""
    if _LIKE_PASSWORD.search(name) or not _LETTERS.fullmatch(bare[0]):
        return False
    return _GOES_ON.match(text, bare.end()) is not None


def _quoted(text: str, at: int) -> Span | None:
    quoted = _QUOTED.match(text, at) or _ESCAPED.match(text, at) or _BLOCK.match(text, at)
    if quoted is None:
        return None
    start, end = quoted.span("block" if "block" in quoted.re.groupindex else quoted.lastindex or 0)
    return _past_scheme(text, start), end


def _past_scheme(text: str, at: int) -> int:
    """Return where the value begins behind a scheme such as `Bearer`."""
    found = _SCHEME.match(text, at)
    return found.end() if found else at


def _is_secret(value: str, name: str, level: Secrecy, *, as_code: bool = False) -> bool:
    if level is Secrecy.WEAK:
        return looks_random(value) or (name.lower() in {"sig", "signature"} and "%" in value[20:])
    if not _MEANING.search(_SLOT.sub("", value)) or _REFERENCE.fullmatch(value) or value.lower() in _PLAIN:
        return False
    if name.lower().endswith("pwd") and _FOLDER.match(value):
        return False
    if " " in value.strip() and name and not _LIKE_PASSWORD.search(name) and not _WITH_BLANKS.search(name):
        return False
    return not (as_code and _is_code(value, name.rpartition(".")[2]))


def _is_code(value: str, name: str) -> bool:
    """Whether an unquoted value is an expression, a type or a name; a password may look like a name."""
    if _EXPRESSION.fullmatch(value) or value.lower().strip("?!*&.()[]{}:") in _PLAIN:
        return True
    if _SHORT_NUMBER.fullmatch(value):
        return len(value) < _SHORTEST_PIN or not _NUMERIC.search(name)
    if value.startswith(("http://", "https://")) or (_IDENTIFIER.fullmatch(value) and _is_variable(value, name)):
        return True  # addresses are searched on their own
    if _ATTRIBUTE.fullmatch(value) or _TYPE.fullmatch(value):
        return not _LIKE_PASSWORD.search(name) or secrecy(_last_part(value)) >= Secrecy.CODE
    return False


def _is_variable(value: str, name: str) -> bool:
    if value.strip("_:").lower() == name.strip("_").lower():
        return not name.isupper()
    named = secrecy(value) >= Secrecy.CODE and ("_" in value or value != value.lower())
    return named and not _INVENTED.match(value)


def _beside(pattern: re.Pattern[str], text: str, *, mixed: bool = False) -> Iterator[Span]:
    """Yield the values behind names that a pattern finds; without a name, every value is a secret.

    `mixed` asks for a value that is no plain word, where a list of names looks the same.
    """
    end = 0
    for found in pattern.finditer(text):
        level = secrecy(found["name"]) if found["name"] else Secrecy.SECRET
        if level is Secrecy.NONE or found.start() < end:
            continue
        value = _quoted(text, found.end()) or _bare(text, found.end())
        shown = text[slice(*value)] if value else ""
        if value and _is_secret(shown, "", level) and (not mixed or _MIXED.fullmatch(shown)):
            end = value[1]
            yield value


def _bare(text: str, at: int) -> Span | None:
    return _whole(_BARE, text, at)


def _after_scheme(text: str) -> Iterator[Span]:
    """Yield what follows `Bearer` or `Basic` if it does not look like a word."""
    for found in _SCHEME.finditer(text):
        value = _bare(text, found.end())
        if value and _looks_made(text[slice(*value)], found[0].lower().strip()):
            yield value


_MADE = re.compile(r"[A-Za-z0-9._~+/=-]{8,}")
_NO_WORD = re.compile(r"[0-9]|[a-z][A-Z]|.{24}")


def _looks_made(value: str, scheme: str) -> bool:
    if scheme not in {"bearer", "basic"}:
        return looks_random(value)
    if not _MADE.fullmatch(value):
        return False
    return value.endswith("=") or _NO_WORD.search(value) is not None


def _spoken(text: str) -> Iterator[Span]:
    """Yield the value in `the password is x` and `IDENTIFIED BY 'x'`, if it is quoted or no plain word."""
    for found in _SPOKEN.finditer(text):
        if quoted := _quoted(text, found.end()):
            if _is_secret(text[slice(*quoted)], "", Secrecy.SECRET) and " " not in text[slice(*quoted)]:
                yield quoted
        elif bare := _bare(text, found.end()):
            word = text[slice(*bare)].rstrip(".:!?")
            if _MIXED.fullmatch(word) and not _MEASURE.fullmatch(word):
                yield bare
