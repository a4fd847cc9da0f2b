"""A Streamlit app whose agent needs your say-so: `streamlit run examples/streamlit_app.py`; the agent is a script."""

import threading
from pathlib import Path
from tempfile import gettempdir

import streamlit as st

from sayso import ApprovalController, ApprovalError, Policy, guard
from sayso.streamlit import approval_inbox


def send_mail(to: str, subject: str, text: str) -> str:
    """Send a mail."""
    return f"sent {subject!r} to {to}: {len(text)} characters"


def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


class Office:
    """The agent and its results; one instance for all sessions of the app."""

    def __init__(self, store: Path) -> None:
        """Put the agent's tools behind a controller that asks through a store."""
        self.store = store
        self.done: list[str] = []
        controller = ApprovalController(policy=Policy(default="required"), store=store)
        self._send_mail = guard(send_mail, controller)
        self._pay = guard(pay, controller)

    def begin(self) -> None:
        """Run the agent in a thread of its own: the thread of the app must stay responsive."""
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        letter = "Dear Ann,\n\nyour invoice is paid today.\n\nYour office"
        for step in (lambda: self._pay("Ann", 120), lambda: self._send_mail("ann@example.org", "Invoice", letter)):
            try:
                self.done.append(step())
            except ApprovalError as error:
                self.done.append(str(error))


@st.cache_resource
def office() -> Office:
    return Office(Path(gettempdir()) / "sayso-streamlit-example.db")


@st.fragment(run_every=1.0)
def show_what_was_done() -> None:
    for line in office().done:
        st.text(line)


st.title("The office")
st.button("Pay the invoice of today", on_click=office().begin)
approval_inbox(office().store, who=st.sidebar.text_input("You are", "ann"))
st.subheader("What the agent did")
show_what_was_done()
