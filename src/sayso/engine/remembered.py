"""Cache of remembered decisions (grants): found by dictionary look-ups, listable, revocable, with expiry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import replace

from sayso.core import decide
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Denied, Remembered, Scope, ToolCall, new_id
from sayso.engine.clock import ForwardTime, clock_of
from sayso.errors import CanonicalError, NotEntitled
from sayso.policy import scopes

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Store

_LOG = logging.getLogger("sayso")
_MOST_ARGS = 10_000


class ApprovalMemory:
    """The decisions that are remembered for later calls.

    Without a store they live as long as the object; with one they survive the process, and are shared with every
    other process on that store.
    """

    def __init__(self, *, store: Store | None = None, session: str | None = None, clock: Clock | None = None) -> None:
        self._clock = clock_of(store, clock)
        self._forward = ForwardTime(self._clock)
        self.session = session or new_id()
        self.has_session = bool(session)
        self._lock = threading.Lock()
        self._by_id: dict[str, Remembered] = {}
        self._by_key: dict[str, tuple[Remembered, ...]] = {}
        self._args: dict[str, Mapping[str, Any]] = {}  # of decisions about one call, by id; only in this process
        self._dropped: set[str] = set()
        self._unsynced_denials: dict[str, Remembered] = {}
        self._lists_received = 0  # from the store
        self._stored: Sequence[Remembered] = ()  # the last of these lists
        self._store = store
        if store is not None:
            store.attach(self._on_store_change)

    def __bool__(self) -> bool:
        """Whether anything is remembered; the hot path asks before it hashes arguments."""
        return bool(self._by_id)

    def __len__(self) -> int:
        """Return the number of decisions that have not expired."""
        return len(self.list())

    @overload
    def lookup(self, request: ApprovalRequest, /) -> ApprovalDecision | None: ...
    @overload
    def lookup(self, tool_name: str, args: Mapping[str, Any], /) -> ApprovalDecision | None: ...
    def lookup(self, what: ApprovalRequest | str, args: Mapping[str, Any] | None = None, /) -> ApprovalDecision | None:
        """Return the decision remembered for this request, or for this tool with these arguments."""
        session, schema_hash = self.session, ""
        try:
            if isinstance(what, ApprovalRequest):
                keys, session, schema_hash = scopes.request_keys(what), what.session or session, what.schema_hash
            else:
                keys = scopes.named_keys(what, args or {})
        except CanonicalError:
            return None  # what cannot be canonicalised was never remembered
        found = self.find(keys, session, self._forward.now(), schema_hash)
        return found.decision if found else None

    @overload
    def store(self, request: ApprovalRequest, decision: ApprovalDecision, /) -> None: ...
    @overload
    def store(self, tool_name: str, args: Mapping[str, Any], decision: ApprovalDecision, /) -> None: ...
    def store(self, what: ApprovalRequest | str, *rest: Any) -> None:
        """Remember a decision, unless its `remember` is `none`."""
        decision: ApprovalDecision = rest[-1]
        if decision.remember == "none":
            return
        try:
            request = what if isinstance(what, ApprovalRequest) else ApprovalRequest(tool_name=what, args=rest[0])
            scope = scopes.call_scope(request.tool_name, request.args, request.payload)
        except CanonicalError as error:
            _LOG.warning("not remembered: %s", error)
            return
        built = self.build(replace(request, scopes=(scope,)), decision, now=self._clock.now())
        self.add(*built)
        self.note_args(request, built)

    def build(
        self,
        request: ApprovalRequest,
        decision: ApprovalDecision,
        *,
        now: float,
        longest: float | None = None,
    ) -> list[Remembered]:
        """Build the records of a decision, one for each part of its scope, without adding them.

        Raises:
            ValueError: the decision asks for a scope that the request does not offer.
        """
        ends = [] if decision.until is None else [decision.until]
        if longest is not None:
            ends.append(now + longest)
        chosen = _chosen(request, decision)
        return [
            Remembered(
                id=new_id(),
                tool=request.tool_name,
                scope=scope,
                decision=decision,
                session=None if decision.remember == "always" else request.session or self.session,
                remembered_at=now,
                expires_at=min(ends, default=None),
                uses_left=decision.uses,
                schema_hash=request.schema_hash,
                request_id=request.id or None,
                project=request.project,
            )
            for scope in chosen.parts or (chosen,)
        ]

    def find(
        self, keys: Iterable[str], session: str, now: float, schema_hash: str = "", *, parts: Sequence[str] = ()
    ) -> Remembered | None:
        """Return the decision for these keys: a no before a yes, then narrow before broad.

        A no to one of the `parts` applies too; a yes needs all of them, and none that is counted.
        """
        approval = self._find_applicable(keys, session, now, schema_hash)
        if not parts or (approval is not None and not approval.decision.approved):
            return approval
        together = [self._find_applicable((key,), session, now, schema_hash) for key in parts]
        for each in together:
            if each is not None and not each.decision.approved:
                return each
        if approval is None and all(each is not None and each.uses_left is None for each in together):
            return together[0]
        return approval

    def _find_applicable(self, keys: Iterable[str], session: str, now: float, schema_hash: str) -> Remembered | None:
        approval = None
        for key in keys:
            for each in self._by_key.get(key, ()):
                if each.covers(session, now, schema_hash):
                    if not each.decision.approved:
                        return each
                    approval = approval or each
        return approval

    def list_approvals(self) -> list[tuple[str, dict[str, Any] | None, ApprovalDecision]]:
        """Return tool, arguments and decision of all that `list` returns.

        The arguments are None where the decision covers more than one call, or was remembered by another process: a
        record holds only their digest.
        """
        found = ((each, self._args.get(each.id)) for each in self.list())
        return [(each.tool, None if args is None else thaw(args), each.decision) for each, args in found]

    def list(self) -> list[Remembered]:
        """Return all decisions that have not expired, oldest first."""
        now = self._forward.now()
        kept = [each for each in tuple(self._by_id.values()) if each.expires_at is None or now < each.expires_at]
        return sorted(kept, key=lambda each: each.remembered_at)

    def note_args(self, request: ApprovalRequest, remembered: Iterable[Remembered]) -> None:
        """Note what decisions about one call are about, for `list_approvals`: the payload or the arguments."""
        if len(self._args) >= _MOST_ARGS:
            self._args.clear()
        args = request.args if request.payload is None else request.payload
        self._args.update({each.id: args for each in remembered if each.scope.kind == "call"})

    def revoke(self, remembered_id: str, *, who: str | None = None) -> bool:
        """Forget one decision; false if it does not exist."""
        return self._drop([remembered_id], f"revoked by {who or 'the host'}")

    def clear(self) -> None:
        """Forget everything."""
        self._drop(list(self._by_id), "everything was cleared")

    def clear_session(self, session: str | None) -> None:
        """Forget what was remembered for this session; None is any session."""
        limited = [each for each in list(self._by_id.values()) if each.session]
        ids = [each.id for each in limited if session is None or each.session == session]
        self._drop(ids, "the session was cleared")

    def add(self, *remembered: Remembered) -> None:
        """Add records: a no applies at once, a yes when the store has accepted it."""
        with self._lock:
            received = self._lists_received
            for each in remembered:
                if not each.decision.approved:
                    self._put(each)
                    if self._store is not None:
                        # An older list of the store, from before this no, must not drop it. A yes that is lost that
                        # way is only asked about again.
                        self._unsynced_denials[each.id] = each
        if self._store is not None:
            self._store.remember(remembered, [])  # if it raises, a no applies in this process, and a yes does not
        with self._lock:
            if self._lists_received == received:  # else the newer list applies: the decision may be revoked already
                for each in remembered:
                    if each.decision.approved:
                        self._put(each)

    async def spend(self, remembered: Remembered) -> bool:
        """Take one use of a counted decision: false when none is left."""
        if self._store is not None:
            return await self._store.spend(remembered.id)  # which then sends the new count
        with self._lock:
            left = decide.spend(self._by_id.get(remembered.id))
            if left is None:
                return False
            self._remove(left.id)
            if left.uses_left:
                self._put(left)
            return True

    def belongs_to(self, store: Store) -> bool:
        """Whether this memory is stored there."""
        return self._store is store

    def _drop(self, ids: Sequence[str], reason: str) -> bool:
        """Drop records: a yes ends at once, a no when the store has accepted it."""
        with self._lock:
            gone = [self._by_id[each] for each in ids if each in self._by_id]
            denials = {each.id for each in gone if not each.decision.approved}
            self._hide(each for each in ids if each not in denials)
        there = 0 if self._store is None else self._drop_in_store(self._store, ids)
        with self._lock:
            self._hide(denials)
            for each in ids:
                self._unsynced_denials.pop(each, None)
            if not there and not gone:
                self._dropped.difference_update(ids)  # there was nothing to drop, so nothing may be hidden later
        if self._store is not None:
            for each in gone:
                self._store.record(_revocation(each, reason, self._clock.now()))
        return there > 0 or bool(gone)

    def _drop_in_store(self, store: Store, ids: Sequence[str]) -> int:
        try:
            return store.remember([], ids)  # also records that this process has not received yet
        except NotEntitled:
            with self._lock:  # as the store has it now: one of them may have been revoked meanwhile
                self._dropped.difference_update(ids)
                self._rebuild()
            raise

    def _hide(self, ids: Iterable[str]) -> None:
        """Remove records; an older list of the store, from before this, must not bring them back."""
        for each in ids:
            self._remove(each)
            if self._store is not None:
                self._dropped.add(each)

    def _on_store_change(self, known: Sequence[Remembered]) -> None:
        with self._lock:
            self._lists_received += 1
            self._stored = known
            self._dropped.intersection_update(each.id for each in known)
            for each in known:
                self._unsynced_denials.pop(each.id, None)
            self._rebuild()

    def _rebuild(self) -> None:
        kept = [each for each in (*self._stored, *self._unsynced_denials.values()) if each.id not in self._dropped]
        by_key: dict[str, tuple[Remembered, ...]] = {}
        for each in kept:
            by_key[each.scope.key] = (*by_key.get(each.scope.key, ()), each)
        # Replaced as a whole: a concurrent reader must not miss a no.
        self._by_key, self._by_id = by_key, {each.id: each for each in kept}

    # Readers take no lock: each value of `_by_key` is replaced whole, never changed.
    def _put(self, remembered: Remembered) -> None:
        key = remembered.scope.key
        self._by_id[remembered.id] = remembered
        self._by_key[key] = (*self._by_key.get(key, ()), remembered)

    def _remove(self, remembered_id: str) -> Remembered | None:
        gone = self._by_id.pop(remembered_id, None)
        if gone is not None:
            key = gone.scope.key
            self._by_key[key] = tuple(each for each in self._by_key[key] if each.id != gone.id)
            if not self._by_key[key]:
                del self._by_key[key]
        return gone


def _revocation(remembered: Remembered, reason: str, at: float) -> AuditEntry:
    call = ToolCall(tool=remembered.tool, call_id="", session=remembered.session or "")
    outcome = Denied(cause="refused", reason=f"decision {remembered.id} is no longer remembered: {reason}")
    return AuditEntry(at=at, step="revoked", about=call, outcome=outcome)


def _chosen(request: ApprovalRequest, decision: ApprovalDecision) -> Scope:
    kind = decision.scope or "call"
    if decision.override_args is not None and (kind != "call" or request.payload is not None):
        raise ValueError(
            "an edited answer can be remembered only for this exact call: it would replace other arguments"
        )
    for scope in request.scopes:
        if scope.kind == kind and scope.parts and decision.uses is not None:
            raise ValueError("several commands cannot be remembered for a number of uses; give a time instead")
        if scope.kind == kind:
            return scope
    offered = ", ".join(repr(scope.kind) for scope in request.scopes) or "none"
    raise ValueError(f"the scope {kind!r} is not offered for this request (offered: {offered})")
