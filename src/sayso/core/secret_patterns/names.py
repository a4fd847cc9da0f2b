"""Names of secrets: whether a name such as `db_password`, `X-Api-Key` or `--token` says that its value is one."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

_LONGEST = 200  # characters of a name; a longer text is no name
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[^a-z0-9]+")


class Secrecy(IntEnum):
    """How much a name says about its value."""

    NONE = 0
    WEAK = 1  # a secret if the value looks random
    CODE = 2  # a secret, but in source text the name often means something else
    SECRET = 3


def words(text: str) -> frozenset[str]:
    """Return the words of a text, as a set."""
    return frozenset(text.split())


_SECRET = words("""
    password passwords passwd passphrase passcode pwd secret secrets token tokens apikey apikeys credential
    credentials creds authorization jwt totp mnemonic psk connstr sessid phpsessid jsessionid sessionid authtoken
    userpwd
""")
_SECRET_AT_THE_END = words("cookie cookies pin otp cvv cvc dsn bearer csrf xsrf")
_SECRET_IN_DATA = words("pw pass pat auth pswd")
_GLUED = re.compile(
    r"passw(?:or)?[dt]|kennwort|contrase|senha|passphrase|passcode|secret(?!ar)|token(?!i[sz])|api_?key|credential|seed_phrase"
    r"|(?:^|_)(?:db|user|store|key|root|my|admin|smtp|mail|ftp|sql|pg|mysql|ssh|ldap|bind|new|old|truststore|keystore)pass"
    r"(?![a-z])"
)
_GLUED_LAST = re.compile(
    r"(?:connection_?str(?:ing)?|conn_?str|(?:recovery|backup|verification|security|mfa|2fa|one_time|pin|otp)_codes?|security_answer)$"
)
# Before `key`: what is used like a password, and what only finds a thing.
_KEY_OF_SECRET = words("""
    access account admin aes anon app application auth authentication client cloud consumer crypt crypto decryption
    deploy developer dev encryption fernet hash hmac ingest instrumentation integration jwt license licence live
    maps master merchant my org partner preshared private prod production publishable recovery restricted role root
    rsa sdk secret sender server service session shared signature signing sk ssh sub subscription test totp user
    wallet webhook wep wpa write airtable algolia amplitude anthropic aws azure binance claude cloudflare coinbase
    cohere datadog dd deepseek deepl elevenlabs exa fastly figma firebase gcp gemini github gitlab google grok groq
    heroku hf huggingface infura langsmith linear mailchimp mailgun mapbox mistral netlify newrelic nvidia openai
    openrouter pagerduty perplexity pinecone postmark rapidapi replicate resend segment sendgrid sentry serpapi
    shodan shopify slack stripe supabase tavily telegram together twilio vercel virustotal voyage xai youtube
""")
_KEY_OF_A_THING = words("""
    accelerator any arrow attribute attr bucket cache candidate category cell column composite compound config
    context cursor data dataset dedup default dict dictionary document duplicate enum env event extra feature field
    file flag foreign form group hot idempotency index issue item join json keyboard label last locale lock lookup
    map mapping memo menu message meta metadata modifier natural nested next object order parent part partition path
    pk placeholder prev previous primary project prop property public query queue range react record redis ref
    registry relation remote resource result routing row s3 schema search setting shard shortcut sort state storage
    string surrogate table tag temp template theme topic trace translation tree type unique url view yaml
""")
_PASS_OF_A_THING = words("""
    first second third render single multi forward backward one two next last pre boarding must should tests test
    high low band both all final cleanup optimization analysis compiler depth shadow
""")
# Last words that say nothing about the kind of value.
_FORMS = words("value header string text hash plain plaintext raw confirm confirmation again repeat base64 b64 encoded")
# Last words that make a name one of a fact about a secret: its file, its kind, its size.
_ABOUT = words("""
    path paths file files filename dir directory folder name names type types url urls uri uris endpoint endpoints
    host ids count counts limit limits length len size sizes budget usage used policy policies rule rules expiry
    expires expiration ttl age at on date time timeout duration field fields column columns param label placeholder
    hint help description prompt title error errors message msg status provider providers method methods mode
    enabled disabled required visible valid strength version format algorithm alg scheme prefix suffix pattern regex
    store manager service server handler helper util utils class model schema form input page view generator ref
    refs reference arn location source env var kind scope scopes audience issuer index position offset stdin samples
    bucket rotation cost price rate ratio probability logprobs embedding embeddings vocab vault backend middleware
    module plugin consent banner domain samesite flow grant layer set sets group groups lifetime validity minutes
    seconds days hours window cached details stats fd cmd command
""")
_ID_OF_SECRET = words("secret sessid access")  # `secret_id`, `access_key_id`; the id of a token is none
_ASKING = words("is has show hide require requires required use uses needs allow allows enable disable skip no without")
# Beside `token`: a piece of a text, or a place in a list of results.
_COUNTING = words("""
    max min num n nb count total limit used input output prompt completion cached reasoning new context per budget
    remaining estimated avg average chunk special stop bos eos pad unk mask sep cls next page continuation continue
    cursor cancel cancellation abort design color colour first last lex lexer parser word words text train vocab
    syntax end start open close generated accepted rejected
""")


@lru_cache(maxsize=4096)
def secrecy(name: str) -> Secrecy:
    """Return how much a name says about its value."""
    if len(name) > _LONGEST:
        return Secrecy.SECRET if _GLUED.search(name.lower()) else Secrecy.NONE
    parts = [word for word in _BETWEEN.split(_HUMP.sub("_", name).lower()) if word]
    if _GLUED_LAST.search("_".join(parts)):
        return Secrecy.SECRET
    while len(parts) > 1 and (parts[-1].isdigit() or parts[-1] in _FORMS):  # password_2, token_value
        parts.pop()
    if not parts or _is_about_one(parts):
        return Secrecy.NONE
    if parts[-1] == "id" and len(parts) > 1:
        parts.pop()
    return _by_last_word(parts) or _by_any_word(parts)


def _is_about_one(parts: list[str]) -> bool:
    if len(parts) == 1:
        return False
    if parts[-1] == "id":
        return not _ID_OF_SECRET.intersection(parts[:-1])
    return parts[-1] in _ABOUT or parts[0] in _ASKING


def _by_last_word(parts: list[str]) -> Secrecy:
    last, before = parts[-1].rstrip("0123456789"), parts[-2] if len(parts) > 1 else ""
    if last in {"key", "keys"}:
        return _of_key(parts[:-1])
    if last in {"sig", "signature", "salt", "code", "sid", "hmac", "seed", "assertion"}:
        return Secrecy.WEAK
    if last in _SECRET_AT_THE_END:
        return Secrecy.SECRET
    if last in _SECRET_IN_DATA:
        if before in _PASS_OF_A_THING:
            return Secrecy.NONE
        return Secrecy.CODE if not before or last in {"pat", "auth"} else Secrecy.SECRET
    return Secrecy.NONE


def _of_key(before: list[str]) -> Secrecy:
    if not before:
        return Secrecy.WEAK
    if before[0] == "x" or before[-1] in _KEY_OF_SECRET or before[-1] in _SECRET or before[-1] == "api":
        return Secrecy.SECRET
    return Secrecy.NONE if before[-1] in _KEY_OF_A_THING else Secrecy.WEAK


def _by_any_word(parts: list[str]) -> Secrecy:
    joined = "_".join(parts)
    if "token" in joined and _COUNTING.intersection(parts):
        return Secrecy.NONE
    if _GLUED.search(joined) or _SECRET.intersection(word.rstrip("0123456789") for word in parts):
        return Secrecy.SECRET
    return Secrecy.NONE


def mentions_secret(text: str) -> bool:
    """Whether a label or selector, such as `#password` or `Password field`, names a secret among other words."""
    parts = set(_BETWEEN.split(_HUMP.sub("_", text[:_LONGEST]).lower()))
    return bool(parts & (_SECRET | _SECRET_AT_THE_END | {"pass", "pw"}) or _GLUED.search("_".join(parts)))


_RANDOM = re.compile(r"[A-Za-z0-9_\-+/=.~!@#$%^*]{12,}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TURNS = re.compile(r"[a-z][A-Z]|[A-Za-z][0-9]|[0-9][A-Za-z]")  # from one kind of character to another
_FEWEST_TURNS = 3
_LONG_WORD = re.compile(r"[A-Za-z0-9]{12}")


def looks_random(value: str) -> bool:
    """Whether a text looks drawn rather than written: one word, with letters and digits in disorder."""
    if not _RANDOM.fullmatch(value) or _UUID.fullmatch(value):
        return False
    return len(_TURNS.findall(value)) >= _FEWEST_TURNS and _LONG_WORD.search(value) is not None
