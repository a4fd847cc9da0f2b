"""Formats of tokens and keys that are known by sight, whatever stands round them.

The public collections of secret scanners say which formats exist; the patterns are our own. Lengths are minima, for
issuers lengthen their tokens.

Tests: tests/core/secret_patterns/test_corpus.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

Span = tuple[int, int]

# One regular expression for each format, between blanks: clouds; code hosts; registries; chat; models; payments; mail;
# services and keys; addresses that are a secret themselves. `*` at the end stands for a random part of letters, digits
# and `_-`, and `<id>` for a UUID.
_ROWS = r"""
    sayso_(?:agent|approver|session|link)_*

    A3T[A-Z0-9][A-Z0-9]{16} AKIA[A-Z0-9]{16} ASIA[A-Z0-9]{16} ABIA[A-Z0-9]{16} ACCA[A-Z0-9]{16}
    ABSK[A-Za-z0-9+/]{80,} bedrock-api-key-[\w+/=-]{16,} AIza[\w-]{30,} AQ\.Ab[\w-]{20,} ya29\.[\w.-]{10,}
    GOCSPX-* GOOG1E[A-Z0-9]{40,} 1//0[\w-]{30,} LTAI[A-Za-z0-9]{12,} AKID[A-Za-z0-9]{24,} AQVN[\w-]{30,}
    t1\.[\w-]{20,}=*\.[\w-]{40,} SCW[A-Z0-9]{17} DO00[A-Z0-9]{16} do[opr]_v1_* dapi[a-f0-9]{32} dose[a-f0-9]{32}
    dkea[a-f0-9]{32}

    gh[opsur]_[\w.-]{20,} github_pat_* glpat-[\w.-]{16,} gldt-* glrt-[\w.-]{16,} glrtr-* glcbt-* glptt-* glft-*
    glimt-* glagent-* gloas-* glsoat-* glffct-* glwt-* GR1348941* ATATT[\w=+.-]{20,} ATCTT[\w=+.-]{20,}
    ATSTT[\w=+.-]{20,} ATOTT[\w=+.-]{20,} ATBB[\w=]{20,} ATTA[a-f0-9]{32,}

    pypi-* npm_[A-Za-z0-9]{20,} rubygems_* cio[A-Za-z0-9]{32} dckr_(?:pat|oat)_* oy2[a-z0-9]{43}
    packagist_[a-z]{2,4}_* CLOJARS_* AKCp[A-Za-z0-9]{40,} cmVmd[A-Za-z0-9]{50,}

    xox[a-z](?:\.xox[a-z])?-[\w-]{10,} xapp-[\w-]{10,} xwfp-[\w-]{10,} [MNO][\w-]{22,27}\.[\w-]{5,7}\.[\w-]{25,}
    mfa\.[\w-]{20,} (?:bot)?\d{6,12}:A[\w-]{32,} EAA[A-Za-z0-9]{60,} A{18}[\w%]{40,} IGQ[\w-]{60,} WPL_AP1\.[\w.=-]{10,}

    [spr]k-(?=[a-z-]{0,40}[0-9A-Z_])[\w-]{16,} [spr]k-[a-z]{20,} csk-* gsk_* xai-* r8_* pplx-[A-Za-z0-9]{20,}
    hf_[A-Za-z0-9]{20,} api_org_[A-Za-z0-9]{20,} nvapi-* tgp_v1_* fw_[A-Za-z0-9]{20,} jina_* tvly-*
    lsv2_[a-z]{2}_* wandb_v1_* e2b_[a-f0-9]{30,} fc-[a-f0-9]{32} apify_api_* pcsk_* esecret_* ph[cxs]_*
    rpa_[A-Z0-9]{30,} a[ks]-[A-Za-z0-9]{22}\b pa-(?=[a-z]*[0-9A-Z])[\w-]{40,}

    [spr]k_(?:live|test|prod)_(?=[a-z_-]{0,40}[0-9A-Z])[\w-]{8,} [spr]k_(?=[a-z_]{0,40}[0-9A-Z])[A-Za-z0-9]{20,}
    [spr]k_\d+_[A-Z0-9]{20,}
    whsec_[\w+/=-]{16,} sk1_* EAAA[\w-]{40,} sq0[a-z]{3}-*
    access_token\$(?:production|sandbox)\$[a-z0-9]+\$[a-f0-9]{16,} shp[a-z]{2}_[a-fA-F0-9]{20,} AQE[\w+/-]{60,}
    access-(?:sandbox|development|production)-<id> rzp_(?:live|test)_[\w]{10,} FLW(?:SECK|PUBK)(?:_TEST)?-*
    live_(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{28,} test_(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{28,} duffel_(?:live|test)_*
    shippo_(?:live|test)_* EZ[AT]K[A-Za-z0-9]{40,} sl\.[\w-]{60,} dG9rO[A-Za-z0-9=]{30,} pat-(?:na|eu|ap)\d-<id>

    SK[0-9a-f]{32} SG\.[\w-]{10,}\.[\w-]{10,} key-[a-f0-9]{32} pubkey-[a-f0-9]{32}
    [a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8} [a-f0-9]{32}-us\d{1,2} xkeysib-* xsmtpsib-*
    re_[A-Za-z0-9]{6,12}_[A-Za-z0-9]{16,} md-[\w-]{22}\b KEY[0-9A-F]{32}_\w{16,}

    hv[sbr]\.[\w-]{16,} [sb]\.(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{24}\b [A-Za-z0-9]{14}\.atlasv1\.[\w-]{20,} HRKU-*
    fo1_* fm[12][ar]?_[\w+/=-]{30,} nf[a-z]_[A-Za-z0-9]{30,} vc[a-z]_[A-Za-z0-9]{20,} vercel_blob_rw_*
    cf(?:ut|at|k)_* v1\.0-[a-f0-9]{24}-[a-f0-9]{40,} pul-[a-f0-9]{40} dp\.[a-z]{2,5}\.[\w.-]{20,}
    ops_eyJ[\w+/=-]{30,} A3-[A-Z0-9]{6}-[A-Z0-9]{5,11}(?:-[A-Z0-9]{5,6}){3,4}
    NR(?:AK|II|JS|IQ|RA|SP|AA|BR)-[\w-]{16,} [a-f0-9]{28,40}NRAL gls[a-z]_\w{20,} glc_[\w+/=-]{20,}
    sntry[a-z]_[\w+/=-]{20,} lin_(?:api|oauth)_* ntn_* secret_(?=[A-Za-z]*\d)[A-Za-z0-9]{30,} fig[a-z]_*
    pat[A-Za-z0-9]{14}\.[a-f0-9]{40,} \d/\d{10,}(?:/\d{10,})?:[a-f0-9]{32} PMAK-* pscale_[a-z]+_[\w.=-]{16,} sbp_*
    sb_secret_* napi_* rnd_[A-Za-z0-9]{20,} dd[pow]_[A-Za-z0-9]{30,} bk[a-z]{2}_[a-f0-9]{30,} CCIP(?:AT|RJ)_*
    sq[upa]_[a-f0-9]{30,} snyk_[a-z]+\.[\w.-]{16,} sgp_\w{30,} sdk-<id> api-<id> mob-<id> CFPAT-*
    pn[ub]_[A-Za-z0-9]{30,} dbt[cu]_* dt0[a-z]\d\d\.[A-Z0-9]{20,}\.[A-Z0-9]{40,} tskey-[a-z]+-*
    2[A-Za-z0-9]{26}_[A-Za-z0-9]{20,} tfp_* rdme_* tk-us-* hc[a-z]ik_* sec-c-<id>
    [A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk SWMTKN-1-[a-z0-9-]{40,} p8e-* 4b1d[A-Za-z0-9]{38}\b fio-u-*
    pat\.[\w-]{20,}\.[0-9a-f]{20,}\.[A-Za-z0-9]{16,} ico-[A-Za-z0-9]{32} dnkey-* sm_[aps]at_[A-Za-z0-9]{16} AVNS_*
    mdb_sa_sk_* API-[A-Z0-9]{26}\b [\w-]{6}\.[\w-]{6}:[\w-]{43} sha256~[\w-]{40,} AGE-SECRET-KEY-[A-Z0-9-]{30,}
    MHcCAQEE[A-Za-z0-9+/=]{20,} MIGHAgEAM[A-Za-z0-9+/=]{20,} MC4CAQAwBQ[A-Za-z0-9+/=]{20,}
    [a-z2-7]{52}(?![A-Za-z0-9]) [A-Za-z0-9]{52}JQQJ9[A-Za-z0-9]{16,}

    hooks\.slack\.com/[a-z]+/[\w/+-]{16,} discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/[\w-]{16,}
    webhook\.office\.com/webhookb2/[\w@/.-]{16,} outlook\.office\.com/webhook/[\w@/.-]{16,}
    hook\.[a-z0-9]+\.make\.com/[a-z0-9]{16,} with/key/[\w-]{16,} hooks/[a-z0-9]{26}\b
"""
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BEGINNING = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"  # of a word, also behind an escape
_LITERAL = re.compile(r"[A-Za-z0-9](?![{?*])")


def _formats() -> Iterator[str]:
    for row in _ROWS.replace("<id>", _UUID).split():
        yield f"{row[:-1]}[A-Za-z0-9_-]{{16,}}" if row.endswith(("_*", "-*", "1*")) else row


@cache
def _by_prefix() -> re.Pattern[str]:
    """Compile the rows, grouped by their first character: most words then cost one comparison for each group."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for row in _formats():
        groups[row[0] if _LITERAL.match(row) else ""].append(row)
    others = groups.pop("")
    branches = [f"{first}(?:{'|'.join(row[1:] for row in rows)})" for first, rows in groups.items()]
    return re.compile(f"(?:{'|'.join([*branches, *others])})")


@cache
def _anywhere() -> re.Pattern[str]:
    return re.compile(_BEGINNING + _by_prefix().pattern)


LEAST = 14  # characters of a secret that is known by sight
_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_-]")
_RUN = re.compile(r"[A-Za-z0-9_.:/~$+=%@-]{14,}")  # every format has one, and few words of a text are so long
_RANDOM_PART = re.compile(r"[A-Za-z0-9_-]{14}")
_RUN_ID = re.compile(rf"(?:lc_run--|run-)?{_UUID}")  # a new one with each call; its search would cost most of a line

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----|\Z)"
    r"|---- BEGIN SSH2 [A-Z ]{0,20}PRIVATE KEY ----.*?(?:---- END|\Z)|Private-Lines:.*?(?:Private-MAC|\Z)"
)
_CRYPT = (  # as in /etc/shadow
    r"\$(?:1|apr1)\$[./\w]{1,16}\$[./\w]{22}|\$[56]\$(?:rounds=\d{1,9}\$)?[./\w]{1,16}\$[./\w]{43,86}"
    r"|\$2[abxy]?\$\d\d\$[./\w]{53}|\$(?:y|gy|7)\$[./\w$]{20,200}"
    r"|\$(?:argon2|scrypt|pbkdf2|bcrypt)[\w-]{0,12}\$[./\w$,=+-]{20,300}"
    r"|\b(?:pbkdf2_sha\d{1,3}|scrypt|argon2|SCRAM-SHA-256)\$[./\w$:,=+-]{20,300}"
)
# Formats without a fixed beginning, each with a text that it cannot do without.
_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (hint, re.compile(pattern, re.DOTALL))
    for hint, pattern in (
        ("private", _PRIVATE_KEY),
        ("b3blbnnzac1rzxktdje", r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s]{20,}"),  # the same keys without their first line
        ("mii", r"MII[A-Za-z0-9+/]{2,5}IB(?:AAK|ADAN)[A-Za-z0-9+/=\s]{20,}"),
        ("eyj", r"(?<![A-Za-z0-9_-])eyJ[\w-]{8,800}\.[\w-]{8,}(?:\.[\w-]*){0,3}"),
        ("q~", r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{30,40}"),
        ("==", r"(?<![A-Za-z0-9+/])(?<!sha512-)(?<!sha512:)[A-Za-z0-9+/]{86}=="),  # Azure: 64 bytes; not a checksum
        ("$", _CRYPT),
        ("sha", r"\{S?SHA\d{0,3}\}[A-Za-z0-9+/=]{20,}"),
        ("aad3b435b51404ee", r"aad3b435b51404ee(?:aad3b435b51404ee)?:[a-f0-9]{32}"),
        ("hooks.zapier.com", r"hooks\.zapier\.com/hooks/[\w/]{10,}"),
    )
)


def has_any(hints: tuple[str, ...], lower: str) -> bool:
    """Whether a text holds one of the hints without which a search for secrets can be spared."""
    for hint in hints:  # noqa: SIM110 - twice as fast as any(), on the way of every decision
        if hint in lower:
            return True
    return False


def find_tokens(text: str, lower: str) -> Iterator[Span]:
    """Yield where a text holds a known format; `lower` is the text in lower case."""
    if _RUN.search(text) is None or _RUN_ID.fullmatch(text) is not None:
        return
    for hint, pattern in _OTHERS:
        if hint in lower:
            yield from (found.span() for found in pattern.finditer(text))
    if _RANDOM_PART.search(text) is None:
        return
    if "\\" in text or "%" in text:
        for run in _RUN.finditer(text):
            yield from (found.span() for found in _anywhere().finditer(text, *run.span()))
        return
    for run in _RUN.finditer(text):
        yield from _at_beginnings(text, *run.span())


def _at_beginnings(text: str, at: int, stop: int) -> Iterator[Span]:
    """Look at the beginnings of words only; where there are no escapes, that is the same, in a quarter of the time."""
    while (start := _START.search(text, at, stop - LEAST + 1)) is not None:
        found = _by_prefix().match(text, start.start(), stop)
        if found is not None:
            yield found.span()
        at = start.end() if found is None else found.end()
