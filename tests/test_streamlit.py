"""The inbox as a part of a Streamlit app, run by Streamlit's own test harness over real stores."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest
from tests.server.served import Served

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalPresentation,
    ApprovalRequest,
    ConversationMessage,
    Policy,
    guard,
)
from sayso.core.approvers import Approvers, Escalation
from sayso.core.model import new_id
from sayso.core.ports import Store
from sayso.engine import blocking, settings
from sayso.stores.memory import MemoryStore
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock
from sayso.testing.samples import sample_request

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "streamlit_app.py"
PATIENCE = 20.0
BY_TOOL = Policy({"pay": {"approval": "required", "scope": "tool"}})


def app(where: object, how: object) -> None:
    from typing import cast  # noqa: PLC0415 - Streamlit runs the text of this function

    from sayso.streamlit import approval_inbox  # noqa: PLC0415 - as above

    approval_inbox(cast("Any", where), every=None, **cast("Any", how))


def look(where: Any, user: Mapping[str, Any] | None = None, **how: Any) -> AppTest:
    """Let somebody look at the app."""
    found = AppTest.from_function(app, args=(where, how), default_timeout=PATIENCE)
    found.user = dict(user or {})
    return found.run()


def texts(page: AppTest) -> str:
    """Everything that is shown as it is."""
    return "\n".join([*(each.value for each in page.text), *(each.value for each in page.code)])


def buttons(page: AppTest) -> list[str]:
    return [each.label for each in page.button]


def settled(page: AppTest) -> AppTest:
    """Let the time be over in which an answer does not count."""
    page.session_state["sayso-desk"].since = 0.0
    return page


def press(page: AppTest, label: str) -> AppTest:
    """Press a button until it counts: what has only just appeared cannot be answered."""
    deadline = time.monotonic() + PATIENCE
    while True:
        next(each for each in page.button if each.label == label).click().run()
        if "only just appeared" not in texts(page):
            assert not page.exception
            return page
        assert time.monotonic() < deadline


class Run:
    """A run of an agent that waits, in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self._call = call
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result = self._call()
        except PermissionError as error:
            self.result = error

    def over(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.result


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqliteStore]:
    found = SqliteStore(tmp_path / "sayso.db", synchronous="NORMAL")
    yield found
    blocking.run(found.aclose)


def asks(store: Store, *args: Any, policy: Policy | None = None) -> Run:
    """Let an agent ask, and wait until the question is there."""

    def pay(amount: int, to: str = "ann") -> str:
        return f"paid {amount} to {to}"

    async def asked(after: int) -> None:
        with anyio.fail_after(PATIENCE):
            await store.changed(after)

    point, _ = blocking.run(store.changes)
    controller = ApprovalController(policy=policy or Policy(default="required"), store=store)
    run = Run(lambda: guard(pay, controller)(*args))
    blocking.run(asked, point)
    return run


def opened(store: Store, tool: str = "pay", **facts: Any) -> ApprovalRequest:
    """Put a request into the store for which nobody waits."""
    given: dict[str, Any] = {
        "description": "Run it",
        "reason": "the rule says so",
        "asked_at": time.time(),
        "session": "s",
        **facts,
    }
    return blocking.run(store.open, ApprovalRequest(id=new_id(), tool_call_id=new_id(), tool_name=tool, **given))


def now(store: Store, request: ApprovalRequest) -> ApprovalRequest:
    found = blocking.run(store.get, request.id)
    assert found is not None
    return found


@pytest.mark.proves("R72")
def test_what_waits_is_shown_and_a_yes_lets_the_run_go_on(store: SqliteStore) -> None:
    run = asks(store, 5)
    page = look(store, who="ann")
    assert "An agent wants to run" in texts(page)
    assert "no rule names this tool, and the default is 'required'" in texts(page)
    assert [each.value for each in page.code] == ["pay", "5", "ann"]
    assert buttons(page) == ["Allow once", "Allow for…", "Edit…", "Deny", "Deny with a note…"]
    press(page, "Allow once")
    assert run.over() == "paid 5 to ann"
    assert "Allowed: pay may run." in texts(page)
    assert "Nothing waits for an answer." in texts(page)


@pytest.mark.proves("R72")
def test_a_no_with_a_note_reaches_the_agent(store: SqliteStore) -> None:
    run = asks(store, 5)
    page = press(look(store, who="ann"), "Deny with a note…")
    page.text_input[0].input("not on a Friday")
    press(page, "Deny with this note")
    assert str(run.over()) == "'pay' did not run: refused by ann (note: not on a Friday)"


@pytest.mark.proves("R63", "R72")
def test_a_yes_can_stand_and_says_for_what(store: SqliteStore) -> None:
    """What else it would allow is said before; later calls run unasked, and one that waits is answered too."""
    run, other = asks(store, 5, policy=BY_TOOL), asks(store, 6, policy=BY_TOOL)
    page = press(look(store, who="ann"), "Allow for…")
    assert "every call of pay, whatever its arguments; including calls that look nothing like this one" in texts(page)
    assert page.radio[0].options == ["Only this", "The whole tool"]
    page.radio[0].set_value("The whole tool")
    page.selectbox[0].set_value("for a day, in every session").run()
    assert "This also answers 1 more open request." in [each.value for each in page.caption]
    press(page, "Allow and remember")
    assert run.over() == "paid 5 to ann"
    assert other.over() == "paid 6 to ann"
    assert "It is remembered. The same answer was given to 1 more open request." in texts(page)
    (remembered,) = ApprovalController(mode="defer", store=store).memory.list()
    assert (remembered.scope.kind, remembered.session, remembered.decision.who) == ("tool", None, "ann")
    assert remembered.expires_at == pytest.approx(time.time() + 86_400, abs=PATIENCE)


@pytest.mark.proves("R64", "R72")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "This cannot be read"),
        ('{"amount": 1, "amount": 2}', "This cannot be read"),
        ("[1]", "This cannot be read"),
        ("amount: much", "This does not fit the tool: amount: 'much' is not of type 'integer'"),
        ("{}", "This does not fit the tool: 'amount' is a required property"),
    ],
)
def test_an_edit_that_does_not_fit_cannot_be_allowed(store: SqliteStore, text: str, problem: str) -> None:
    run = asks(store, 5)
    page = press(look(store, who="ann"), "Edit…")
    page.text_area[0].input(text).run()
    assert problem in texts(page)
    assert next(each for each in page.button if each.label == "Allow with these arguments").disabled
    press(press(page, "Back"), "Deny")
    assert isinstance(run.over(), ApprovalDenied)


@pytest.mark.proves("R64", "R72", "H10")
def test_exactly_the_edited_arguments_run_after_they_were_shown(store: SqliteStore) -> None:
    run = asks(store, 5, "a\u202eb")
    page = press(look(store, who="ann"), "Edit…")
    assert '"to": "a\\u202eb"' in (page.text_area[0].value or "")  # nothing hides in what is to be edited
    page.text_area[0].input('{"amount": 6, "to": "b\u200bob"}').run()
    assert [each.value for each in page.code][-2:] == ["6", "b\\u200bob"]
    page.text_area[0].input('{"amount": 7, "to": "bob"}')  # and a click, before it was shown
    next(each for each in page.button if each.label == "Allow with these arguments").click().run()
    assert "only just appeared" in texts(page)
    press(page, "Allow with these arguments")
    assert run.over() == "paid 7 to bob"


@pytest.mark.proves("H6", "R72")
def test_an_answer_that_comes_too_late_is_told_how_it_stands() -> None:
    store = MemoryStore()
    request = opened(store)
    ann, bob = look(store, who="ann"), look(store, who="bob")
    press(ann, "Deny")
    press(settled(bob), "Allow once")
    assert "Somebody was faster. pay was denied by ann (streamlit). Your answer changed nothing." in texts(bob)
    assert now(store, request).status == "denied"
    assert "Allow once" not in buttons(bob)


def test_what_others_close_stays_in_its_place_until_the_person_moves_on() -> None:
    """Else a click that was on its way would answer something else."""
    store = MemoryStore()
    first, second = opened(store, "first"), opened(store, "second")
    page = look(store, who="ann")
    assert "1 more waits" in [each.value for each in page.caption]
    controller = ApprovalController(mode="defer", store=store)
    blocking.run(controller.answer, first.id, ApprovalDecision(approved=True, who="bob", channel="page"))
    page.run()
    assert "first was allowed by bob (page)." in texts(page)
    assert buttons(page) == ["Next request", "Open"]
    press(page, "Next request")
    assert page.code[0].value == "second"
    assert now(store, second).status == "open"


@pytest.mark.proves("R70")
def test_what_nobody_answered_in_time_says_so() -> None:
    store = MemoryStore()
    opened(store, expires_at=time.time() + 600)
    page = look(store, who="ann")
    assert any("expires in 9:5" in each.value for each in page.text)
    later = ApprovalController(mode="defer", store=store, clock=FixedClock(time.time() + 601))
    assert blocking.run(later.pending) == []
    page.run()
    assert "pay has expired: nobody answered in time." in texts(page)
    assert buttons(page) == ["Close"]


def test_an_answer_to_what_has_only_just_appeared_does_not_count() -> None:
    store = MemoryStore()
    request = opened(store)
    page = look(store, who="ann")
    page.session_state["sayso-desk"].since = time.time() + 60
    page.button[0].click().run()
    assert "it had only just appeared" in texts(page)
    assert now(store, request).status == "open"


def test_a_yes_is_offered_only_to_what_was_shown_whole() -> None:
    store = MemoryStore()
    request = opened(store, args={"text": "\n".join(f"line {number}" for number in range(100))})
    page = look(store, who="ann")
    assert "line 99" not in texts(page)
    assert "To allow it, see all of it first: 89 more lines." in [each.value for each in page.caption]
    assert page.button[0].disabled
    page.toggle[0].set_value(True).run()
    assert "line 99" in texts(page)
    press(page, "Allow once")
    assert now(store, request).status == "approved"


def test_diffs_and_the_parts_of_a_shell_line_are_shown() -> None:
    store = MemoryStore()
    parts = ApprovalPresentation(content="    git status\nask rm -rf build\nno  sudo x", language="bash")
    opened(store, "shell", presentation=parts, agent_path=("report", "cleaner"))
    page = look(store, who="ann")
    assert page.code[-1].value == "may run git status\nasks    rm -rf build\nblocked sudo x"
    assert "report > cleaner wants to run" in texts(page)
    press(page, "Deny")
    opened(store, "write_file", presentation=ApprovalPresentation(diff="@@ -1 +1 @@\n-a\n+b\u200b\n", title="Change x"))
    page.run()
    assert (page.code[-1].value, page.code[-1].language) == ("@@ -1 +1 @@\n-a\n+b\\u200b", "diff")


@pytest.mark.proves("H10")
def test_what_agents_write_never_becomes_a_label() -> None:
    """Labels, captions and notices of Streamlit are Markdown; see also the test in a browser."""
    store, bad = MemoryStore(), "**bad**"
    opened(store, bad, description=bad, reason=bad, agent_path=(bad,), args={bad: bad}, scopes=())
    opened(store, bad)
    page = look(store, who="ann")
    for label in ("Edit…", "Back", "Deny with a note…"):
        press(page, label)
        made = [*page.markdown, *page.caption, *page.title, *page.header, *page.subheader, *page.warning, *page.info]
        words = [each.value for each in made] + buttons(page) + [each.label for each in page.text_area]
        assert bad not in "\n".join(words)
    assert texts(page).count(bad) >= 6


def test_who_answers_is_whoever_is_signed_in() -> None:
    store = MemoryStore()
    people = [
        ({"is_logged_in": True, "email": "ann@example.org", "email_verified": True, "sub": "1"}, "ann@example.org"),
        ({"is_logged_in": True, "email": "boss@example.org", "email_verified": False, "sub": "2"}, "2"),
    ]
    for user, who in people:
        request = opened(store)
        press(look(store, user), "Deny")
        decision = now(store, request).decision
        assert decision is not None
        assert (decision.who, decision.channel) == (who, "streamlit")


@pytest.mark.proves("H5")
def test_nobody_who_is_not_known_sees_anything() -> None:
    store = MemoryStore()
    opened(store)
    page = look(store, {"is_logged_in": False})
    assert [each.value for each in page.info] == ["Sign in to see what waits for an answer."]
    assert texts(page) == ""
    page = look(store)
    assert "nothing says who answers: pass who=…" in page.exception[0].message
    assert texts(page) == ""
    page = look(store, {"is_logged_in": True})
    assert "neither a proven mail address nor an id" in page.exception[0].message


def test_a_database_is_named_by_its_address(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Store] = []

    def open_store(where: Any) -> Store:
        made.append(really_open(where))
        return made[-1]

    really_open = settings.open_store
    monkeypatch.setattr(settings, "open_store", open_store)
    page = look(database, who="ann")
    assert not page.exception
    request = opened(made[0])
    page = settled(page.run())
    press(page, "Allow once")
    assert now(made[0], request).status == "approved"
    assert all(each is made[0] for each in made), "it is opened once, however often somebody looks"
    blocking.run(made[0].aclose)


def test_a_wrong_setting_is_told_in_a_sentence() -> None:
    page = look("gopher://ann:hidden@x", who="ann")
    assert "pass a store, a file or an address" in page.exception[0].message
    assert "hidden" not in page.exception[0].message
    page = AppTest.from_string("from sayso.streamlit import approval_inbox as a\na('x.db', who='ann', every=-1)").run()
    assert "every is -1" in page.exception[0].message


@pytest.mark.proves("H11")
def test_at_a_hub_the_token_says_who_answers(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        request = served.ask({"amount": 5})
        page = look(served.url, token=served.token("approver", "ann"))
        assert "report > payer wants to run" in texts(page)
        press(page, "Allow once")
        decision = served.get(request).decision
        assert decision is not None
        assert (decision.approved, decision.who) == (True, "ann")
        late = served.ask({"amount": 6})
        page.run()
        with served.person("bob") as bob:
            assert bob.post(f"/approvals/{late.id}", json={"approved": False}).status_code == 200
        press(settled(page), "Allow once")
        assert "Somebody was faster. report > payer: pay was denied by bob" in texts(page)
    finally:
        served.stop()
    page.run()
    assert page.warning[0].value.startswith("What waits for an answer cannot be read.")
    assert "cannot be reached" in texts(page)


def offered(page: AppTest) -> list[str]:
    """The answers that are not switched off."""
    return [each.label for each in page.button if not each.disabled]


def test_only_an_answer_that_would_count_is_offered(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.start()
    late = Approvers(roles=("ops",), escalate=Escalation(role="lead", after=600))
    try:
        served.ask({"amount": 5}, approvers=late, asked_at=time.time() - 3600)
        page = look(served.url, token=served.token("approver", "cem"))
        assert "Its rule asks for 1 person in the role ops, and cem is not in that role." in texts(page)
        assert offered(page) == ["Deny", "Deny with a note…"]
        lea = look(served.url, token=served.token("approver", "lea", roles=("lead",)))
        assert offered(lea) == ["Allow once", "Allow for…", "Edit…", "Deny", "Deny with a note…"], (
            "after the escalation"
        )
        served.do(served.store.close(served.do(served.store.pending())[0].id, "withdrawn", None, now=time.time()))
        served.ask({"amount": 6}, approvers=late, asked_by="Cem")
        lea.session_state["sayso-desk"].select("")
        assert offered(lea.run()) == ["Deny", "Deny with a note…"], "before the escalation"
        page.session_state["sayso-desk"].select("")
        assert offered(page.run()) == []
        assert "Whoever asks cannot answer, and cem asked this." in texts(page)
    finally:
        served.stop()


def test_over_a_store_a_yes_that_takes_a_hub_is_not_offered(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sayso.db")
    two = Approvers(count=2)
    blocking.run(store.open, replace(sample_request(), approvers=two))
    page = look(store, who="ann")
    assert "Its rule asks for 2 people; answer through a hub, which knows who they are." in texts(page)
    assert offered(page) == ["Deny", "Deny with a note…"]
    blocking.run(store.aclose)


def test_the_example_does_only_what_was_agreed_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = AppTest.from_file(str(EXAMPLE), default_timeout=PATIENCE).run()
    page.button[0].click().run()
    deadline = time.monotonic() + PATIENCE
    for label, done in (("Allow once", "paid 120 to Ann"), ("Deny", "'send_mail' did not run: refused by ann")):
        while label not in buttons(page):
            assert time.monotonic() < deadline, buttons(page)
            page.run()
        press(page, label)
        while done not in texts(page):
            assert time.monotonic() < deadline, texts(page)
            page.run()


@pytest.mark.parametrize("missing", ["streamlit", "adalflow"])
def test_it_needs_streamlit_and_no_framework(missing: str) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "try:\n    import sayso.streamlit\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ("pip install sayso[streamlit]" in done.stdout) == (missing == "streamlit")


def test_the_messages_before_a_call_are_folded_marked_and_no_part_of_what_has_to_be_seen() -> None:
    store = MemoryStore()
    said = (
        ConversationMessage(role="user", text="pay **ann**\n\u202enow"),
        ConversationMessage(role="agent", text="x\n" * 100, gap=True),
    )
    blocking.run(store.open, ApprovalRequest(tool_name="pay", id=new_id(), args={"amount": 5}, conversation=said))
    page = settled(look(store, who="ann"))
    (folded,) = page.expander
    assert folded.label == "Before this call: 2 messages, in the agent's words"
    assert not folded.proto.expanded
    assert [each.value for each in folded.caption] == ["What you allow does not rest on them."]
    assert [each.value for each in folded.text] == ["user", "agent (messages before it are left out)"]
    assert folded.code[0].value == "pay **ann**\n\\u202enow"
    assert not page.toggle, "long messages are nothing that has to be unfolded"
    assert "Allow" not in "".join(each.label for each in page.button if each.disabled)
    press(page, "Allow once")
    assert blocking.run(store.pending) == []
