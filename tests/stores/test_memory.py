"""The memory store keeps the contract."""

from pathlib import Path

from sayso.ports import Store
from sayso.stores.memory import MemoryStore
from sayso.testing import StoreContract


class TestMemoryStore(StoreContract):
    def open_two(self, folder: Path) -> tuple[Store, Store]:
        store = MemoryStore()
        return store, store
