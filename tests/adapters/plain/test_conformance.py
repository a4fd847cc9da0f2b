"""Plain functions behind `guard`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.plain.driver import PlainDriver


class TestPlainFunctions(Conformance):
    driver = PlainDriver()
