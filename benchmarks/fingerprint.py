"""P8: the digest (fingerprint) that binds an approval to its arguments: speed and collisions."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, interleave, repeat
from sayso import ToolCall
from sayso.errors import CanonicalError

Args = dict[str, Any]


def _tree(leaves: int) -> Args:
    """Return nested arguments as models send them: objects, lists, texts and numbers."""
    items = [
        {"id": n, "name": f"item {n}", "tags": ["a", "b"], "price": n * 1.5, "on": n % 2 == 0} for n in range(leaves)
    ]
    return {"items": items, "total": leaves}


CASES: dict[str, Args] = {
    "100 B": {"path": "reports/2026/summary.txt", "text": "forty characters of text, near enough ..", "mode": "append"},
    "10 kB text": {"path": "a.txt", "text": "some plain text " * 640},
    "1 MB text": {"path": "a.txt", "text": "some plain text " * 65_536},
    "7 kB tree": _tree(100),
    "770 kB tree": _tree(9_500),
}
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def limit(args: Args) -> str:
    return hashlib.sha256(_ENCODER.encode(args)).hexdigest()


def json_digest(args: Args) -> str:
    return hashlib.sha256(json.dumps(args, sort_keys=True, default=str).encode()).hexdigest()


def build_and_digest(args: Args) -> str:
    return ToolCall(tool="t", args=args, call_id="1").digest()


async def speed(effort: Effort) -> list[Row]:
    """Digest a call that exists, and one that is built first; only the former has a goal."""
    rows: list[Row] = []
    for name, args in CASES.items():
        seconds = await interleave(
            {
                "limit": repeat(partial(limit, args)),
                "digest": repeat(ToolCall(tool="t", args=args).digest),
                "built": repeat(partial(build_and_digest, args)),
                "json": repeat(partial(json_digest, args)),
            },
            effort,
        )
        digest, built = seconds["digest"], seconds["built"]
        rows += [
            row(
                "P8",
                f"digest {name}; peer: json",
                digest,
                limit=compare(digest, seconds["limit"], at_most(2)),
                peer=compare(digest, seconds["json"], at_most(1 / 3)),
            ),
            row(
                "P8",
                f"build + digest {name}",
                built,
                limit=compare(built, seconds["limit"], at_most(3) if "tree" in name else None),
                peer=compare(built, seconds["json"]),
            ),
        ]
    return rows


# Pairs of different arguments, which must not have the same digest; a refusal is correct, too.
TRAPS: tuple[tuple[Any, Any], ...] = (
    (1, True),
    (0, False),
    (1, 1.0),
    (0.0, -0.0),
    (float("nan"), None),
    (float("nan"), float("nan")),
    ({1: "a"}, {"1": "a"}),
    (b"a", "b'a'"),
    (Decimal("1.5"), "1.5"),
    (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02 03:04:05+00:00"),
    (dt.date(2026, 1, 2), "2026-01-02"),
    ((1, 2), [1, 2]),
    (2**70, str(2**70)),
    ("\u00e9", "e\u0301"),
    (None, "None"),
    ([[]], []),
)


def _digests_match(digest: Callable[[Args], str], one: object, other: object) -> bool:
    try:
        return digest({"value": one}) == digest({"value": other})
    except (CanonicalError, OverflowError, TypeError):
        return False


def traps(_: Effort) -> list[Row]:
    """Count false matches; short-lived objects with a reused address are the last trap."""
    counts = [
        sum(_digests_match(digest, one, other) for one, other in TRAPS)
        + _digests_match(digest, _SameText(), _SameText())
        for digest in (build_and_digest, limit, json_digest)
    ]
    ours, theirs, by_json = counts
    what = f"{len(TRAPS) + 1} traps, false matches; json"
    return [Row(target="P8", what=what, unit="", ours=ours, exact=ours == 0, counted=(theirs, by_json))]


class _SameText:
    """Two instances are different, but have the same text."""

    def __str__(self) -> str:
        return "<object at 0x7f0000000000>"


MEASUREMENTS = (speed, traps)
