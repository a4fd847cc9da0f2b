"""Google ADK behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.google_adk.driver import GoogleAdkDriver


class TestGoogleAdk(Conformance):
    driver = GoogleAdkDriver()
