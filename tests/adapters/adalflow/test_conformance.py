"""AdalFlow behind a permission manager, under the cases of all adapters."""

from tests.adapters.adalflow.driver import AdalFlowDriver
from tests.adapters.conformance import Conformance


class TestAdalFlow(Conformance):
    driver = AdalFlowDriver()
