"""The conformance suite: the same cases, by name, for every adapter; `driver.py` says what a framework has to bring."""

from tests.adapters.conformance.deciding import Deciding
from tests.adapters.conformance.driver import Call, Driver, Response, Seen, Tool
from tests.adapters.conformance.nesting import Nesting
from tests.adapters.conformance.pausing import Pausing


class Conformance(Deciding, Pausing, Nesting):
    """All cases; a framework's test class sets `driver`."""


__all__ = ["Call", "Conformance", "Driver", "Response", "Seen", "Tool"]
