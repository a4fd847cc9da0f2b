"""Remembered decisions, parked runs, statistics and audit log of a hub, over REST, with an approver's token.

Tests: tests/cli/test_hub.py
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from sayso.client.hub_http import HubClient, path_of
from sayso.core import audit, json_codec
from sayso.core.model import ApprovalRequest, ParkedRun, Remembered
from sayso.errors import StoreError, UnknownRequest


class _SealedLine(msgspec.Struct):
    number: int
    line: str
    hash: str


class _End(msgspec.Struct):
    number: int
    hash: str


class _SealedLinesPage(msgspec.Struct):
    items: list[_SealedLine]
    next: int | None
    start: _End
    end: _End
    whole: bool


class HubRecords:
    """Client of the records of a hub; the token determines which are visible."""

    def __init__(self, url: str, token: str) -> None:
        self._hub = HubClient(url, token)

    async def remembered(self) -> list[Remembered]:
        """Return the remembered decisions."""
        return [json_codec.remembered_from_dict(each) for each in (await self._hub.get("/remembered"))["items"]]

    async def revoke(self, remembered_id: str, who: str) -> bool:
        """Revoke a remembered decision; the token identifies the approver."""
        del who
        return await self._delete(path_of("remembered", remembered_id))

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs."""
        found: list[ParkedRun] = []
        after: str | None = ""
        try:
            while after is not None:
                page = await self._hub.get("/runs", after=after)
                found += [json_codec.run_from_dict(each) for each in page["items"]]
                after = page["next"]
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise self._unreadable() from error
        return found

    async def drop_run(self, run: ParkedRun, who: str) -> bool:
        """Delete a parked run; the token identifies the approver."""
        del who
        return await self._delete(path_of("runs", run.id))

    async def _delete(self, path: str) -> bool:
        try:
            status, facts = await self._hub.send("DELETE", path)
        except UnknownRequest:
            return False
        if status != HTTPStatus.NO_CONTENT:
            raise StoreError(f"the hub {self._hub.address} says: {facts.get('detail', status)}")
        return True

    def _unreadable(self) -> StoreError:
        return StoreError(f"the hub {self._hub.address} tells what cannot be read; is it of this version?")

    async def request(self, request_id: str) -> ApprovalRequest | None:
        """Return a request, or None."""
        try:
            return json_codec.request_from_dict(await self._hub.get(path_of("approvals", request_id)))
        except UnknownRequest:
            return None

    async def stats(self, hours: int) -> Mapping[str, Any]:
        """Return the statistics of the last hours."""
        return await self._hub.get("/stats", hours=hours)

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return the visible audit entries; the hub may send several empty pages before one with entries."""
        found: list[_SealedLine] = []
        cursor: int | None = after
        while cursor is not None and not found:
            page = await self._page(cursor, limit)
            found, cursor = page.items, page.next
        return [(each.number, each.line.encode(), each.hash) for each in found]

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return the first and the last link of the audit chain."""
        page = await self._page(0, 1)
        return (page.start.number, page.start.hash), (page.end.number, page.end.hash)

    async def verify(self, known: tuple[int, str] | None = None) -> int:
        """Verify the audit chain here, without trust in the hub."""
        if not (await self._page(0, 1)).whole:
            raise StoreError(
                "this token sees the entries of its project only, and a chain can be checked only as a whole: "
                "ask somebody whose token is for every project"
            )
        return await audit.verify(self, known=known)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._hub.aclose()

    async def _page(self, after: int, limit: int) -> _SealedLinesPage:
        try:
            return msgspec.convert(
                await self._hub.get("/audit/lines", after=after, limit=min(limit, 1000)), _SealedLinesPage
            )
        except msgspec.ValidationError as error:
            raise self._unreadable() from error
