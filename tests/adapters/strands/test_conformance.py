"""Strands behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.strands.driver import StrandsDriver


class TestStrands(Conformance):
    driver = StrandsDriver()
