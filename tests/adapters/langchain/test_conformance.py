"""LangChain behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.langchain.driver import LangChainDriver


class TestLangChain(Conformance):
    driver = LangChainDriver()
