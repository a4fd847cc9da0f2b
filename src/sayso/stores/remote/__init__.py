"""The store at a hub, over HTTP."""

from sayso.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
