"""What all routes of a hub share: the store, the controller that closes requests, and the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sayso.clock import SystemClock
from sayso.controller import ApprovalController
from sayso.ports import Keyring, Store

if TYPE_CHECKING:
    from sayso.policy.tools import Policy
    from sayso.ports import Clock


class HubStore(Store, Keyring, Protocol):
    """A store that also keeps tokens."""


class Hub:
    """One hub. It keeps nothing itself: any number of hubs may stand on one store."""

    def __init__(self, store: HubStore, *, policy: Policy | None = None, clock: Clock | None = None) -> None:
        """Take the store, and a policy if edited arguments are to be judged here as well as where the call runs."""
        self.store = store
        self.clock = clock or SystemClock()
        self.controller = ApprovalController(mode="defer", store=store, policy=policy, clock=self.clock)
