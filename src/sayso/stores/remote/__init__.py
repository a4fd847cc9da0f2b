"""Remote store, at a hub over HTTP: the public class."""

from sayso.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
