"""Streamlit component of the inbox: shows open requests in full and submits the answers.

Untrusted text goes through `st.text` and `st.code` only, which do not interpret it. Streamlit's labels, captions and
notices are Markdown, and hold only text of this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sayso.channels.display import blocks
from sayso.channels.display.phrases import JUDGED_LATER, closed_text, request_title
from sayso.channels.display.remember_choices import USES, RememberedApproval, also_allowed, lifetimes
from sayso.channels.display.request_lines import conversation_label
from sayso.channels.display.sanitize import visible
from sayso.client.inbox import AnswerResult, Barrier, Inbox, StoreInbox
from sayso.config.arguments import read_arguments
from sayso.core.approvers import Seen
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.core.ports import Store
from sayso.engine import blocking, settings
from sayso.errors import CanonicalError, ConfigurationError, StillOpen, StoreError, UnknownRequest

try:
    import streamlit as st

    from sayso.channels.edit_schema import schema_violation
except ImportError as error:
    raise ImportError("Streamlit is not installed; run `pip install sayso[streamlit]`") from error

if TYPE_CHECKING:
    from sayso.engine.settings import StoreLike

__all__ = ["approval_inbox", "show_approval_requests"]

_CHANNEL = "streamlit"
_SETTLE_SECONDS = 0.5  # how long content must be displayed before an answer to it counts
_MOST_OTHERS = 20
_SHORT = 100  # characters of a list entry
_WIDTHS = {"call": "Only this", "prefix": "Commands like this", "folder": "This folder", "tool": "The whole tool"}
# Tighter spacing and muted names; static rules without any data.
_STYLE = """<style>
[class*="st-key-sayso-inbox"], [class*="st-key-sayso-values"] { gap: 0.5rem; }
[class*="st-key-sayso-head"] [data-testid="stText"] { font-size: 1.125rem; font-weight: 600; }
[class*="st-key-sayso-values"] [data-testid="stText"] { font-size: 0.875rem; opacity: 0.75; }
[class*="st-key-sayso-inbox"] [data-testid="stCode"] pre { padding-block: 0.5rem; }
[class*="st-key-sayso-values"] [data-testid="stCode"] .token.unchanged { color: inherit !important; }
</style>"""
_TOO_SOON = "Nothing was answered: it had only just appeared. Look at it, and press again."


def approval_inbox(
    where: StoreLike, *, who: str | None = None, token: str | None = None, every: float | None = 2.0, key: str = "sayso"
) -> None:
    """Show the open requests and submit the answers; this fragment of the app refreshes itself.

    Args:
        where: the store of the agents' requests: an object, a file, or the address of a database or a hub.
        who: the approver's name; by default the signed-in user (`st.login`). A hub takes it from the token.
        token: an approver's token for a hub, one per person; by default the one in SAYSO_TOKEN.
        every: the refresh interval in seconds; None refreshes on interaction only.
        key: a unique key for each of several inboxes in one app.

    Raises:
        ConfigurationError: the approver is unknown, or there is no such store.
    """
    settings.check_timeout(every, "every")
    signed_in = _signed_in()
    if signed_in == "" and who is None and token is None:
        st.info("Sign in to see what waits for an answer.")
        return
    if settings.is_hub(where):
        inbox, name = _hub_inbox(where, settings.hub_token() if token is None else token), ""
    else:
        inbox, name = _store_inbox(where), who or signed_in
    if name is None:
        raise ConfigurationError("nothing says who answers: pass who=…, or let people sign in with `st.login`")
    st.fragment(_draw_inbox, run_every=every)(inbox, name, key)


def show_approval_requests(where: StoreLike | None = None, *, who: str | None = None) -> None:
    """Show the inbox, under AdalFlow's name; by default of the store that `StreamlitPermissionManager()` uses."""
    approval_inbox(where or settings.named_store(), who=who)


def _signed_in() -> str | None:
    """Return the name of the signed-in user; empty if not signed in, None if the app has no sign-in."""
    if "is_logged_in" not in st.user:
        return None
    if not st.user.is_logged_in:
        return ""
    proven = st.user.get("email") if st.user.get("email_verified") is not False else None
    name = proven or st.user.get("sub")
    if not isinstance(name, str):
        raise ConfigurationError("the account that is signed in has neither a proven mail address nor an id")
    return name


def _store_inbox(where: StoreLike) -> StoreInbox:
    if isinstance(where, Store):
        return _inbox_on_store(where, id(where))
    place = where if settings.is_database(where) else settings.store_file(where)
    if place is None:
        raise ConfigurationError(
            f"there is no inbox over {settings.redact_address(where)}; pass a store, a file or an address"
        )
    return _inbox_at(place if isinstance(place, str) else place.absolute())


@st.cache_resource(show_spinner=False)
def _inbox_on_store(_store: Store, number: int) -> StoreInbox:
    del number  # the object's id, unique while this cache holds the object
    return StoreInbox(_store)


@st.cache_resource(show_spinner=False)
def _inbox_at(place: str | Path) -> StoreInbox:
    return StoreInbox(settings.open_store(place))


@st.cache_resource(show_spinner=False)
def _hub_inbox(url: str, token: str) -> Inbox:
    from sayso.client.hub_inbox import HubInbox  # noqa: PLC0415 - its own extra, for a hub only

    async def opened() -> Inbox:  # its client must be created in the loop that uses it
        return HubInbox(url, token)

    return blocking.run(opened)


@dataclass
class _InboxState:
    """Session state of one user: the selected request and since when, the form in progress, the last message."""

    request_id: str = ""
    since: float = 0.0
    action: Literal["", "lasting", "editing", "noting"] = ""
    draft: str = ""  # the edited arguments that are displayed
    message: str = ""

    def select(self, request_id: str) -> None:
        """Select a request, or none."""
        self.request_id, self.since, self.action, self.draft = request_id, time.time(), "", ""

    def start_action(self, action: Literal["", "lasting", "editing", "noting"]) -> None:
        """Open a form about the request, or close it."""
        self.action, self.message = action, ""


def _draw_inbox(inbox: Inbox, who: str, key: str) -> None:
    """Render the fragment; Streamlit calls this on every refresh."""
    state: _InboxState = st.session_state.setdefault(f"{key}-desk", _InboxState())
    try:
        waiting = blocking.run(inbox.pending)
        if not state.request_id and waiting:
            state.select(waiting[0].id)
        request = blocking.run(_mark_seen, inbox, state.request_id, who) if state.request_id else None
        barrier = blocking.run(inbox.barrier, request, who) if request is not None else None
    except StoreError as error:
        st.warning("What waits for an answer cannot be read. This tries again by itself.")
        st.text(visible(str(error)))
        return
    view = _InboxView(inbox=inbox, who=who, key=key, state=state, waiting=waiting, barrier=barrier)
    st.html(_STYLE)
    if state.message:
        st.text(visible(state.message))
    if request is None:
        st.text("Nothing waits for an answer.")
    else:
        with st.container(border=True, key=f"sayso-inbox-{key}"):
            view.draw(request)
    view.draw_others()


async def _mark_seen(inbox: Inbox, request_id: str, who: str) -> ApprovalRequest | None:
    """Mark the request as viewed (presence), and return its current state."""
    try:
        return await inbox.mark_seen(request_id, Seen(who=who, channel=_CHANNEL, at=time.time()))
    except UnknownRequest:
        return None


@dataclass(frozen=True, kw_only=True)
class _InboxView:
    """One rendering of the inbox, with the callbacks of its buttons."""

    inbox: Inbox
    who: str
    key: str
    state: _InboxState
    waiting: Sequence[ApprovalRequest]
    barrier: Barrier | None

    # --- The request ---------------------------------------------------------------------------------

    def draw(self, request: ApprovalRequest) -> None:
        """Render one request in full, with its actions."""
        with st.container(horizontal=True, vertical_alignment="center", key=f"sayso-head-{self.key}"):
            st.text(f"{blocks.asker(request)} wants to run")
            st.code(visible(request.tool_name), language=None, wrap_lines=True, width="content")
        st.text(blocks.timing_text(request, time.time()))
        for name, text in blocks.facts(request):
            self._draw_fact(name, text)
        is_open = request.status == "open"
        whole = st.session_state.get(self._widget_key(request, "whole"), False) or not is_open
        hidden = self._draw_arguments(request, whole=whole)
        if request.conversation:
            with st.expander(f"Before this call: {conversation_label(request)}"):
                st.caption("What you allow does not rest on them.")
                self._draw_blocks(blocks.conversation_blocks(request), "before")
        if is_open:
            self._draw_answers(request, hidden)
        else:
            self._draw_closed(request)

    def _draw_arguments(self, request: ApprovalRequest, *, whole: bool) -> int:
        """Render the arguments and the tool's presentation; return the number of folded lines."""
        st.caption("Arguments, as the agent wrote them" if request.args else "It has no arguments.")
        found = [*blocks.argument_blocks(request.args, whole=whole)]
        shown = blocks.presentation_block(request.presentation, whole=whole)
        if shown is not None:
            found.append(shown)
        self._draw_blocks(found, "asked")
        return sum(block.hidden for block in found)

    def _draw_blocks(self, found: Iterable[blocks.Block], name: str) -> None:
        with st.container(key=f"sayso-values-{self.key}-{name}"):
            for block in found:
                st.text(block.heading)
                more = f"\n⋯ {block.hidden:,} more lines ⋯" if block.hidden else ""
                st.code(block.text + more, language=block.language, wrap_lines=True)

    def _draw_fact(self, name: str, text: str) -> None:
        left, right = st.columns([1, 5])
        left.caption(name)
        right.text(text)

    def _draw_closed(self, request: ApprovalRequest) -> None:
        st.text(visible(closed_text(request)))
        if request.decision is not None and request.decision.note:
            self._draw_fact("Their note", visible(request.decision.note))
        others = [each.id for each in self.waiting if each.id != request.id]
        self._button(request, "Next request" if others else "Close", self.state.select, others[0] if others else "")

    def draw_others(self) -> None:
        """Render the other open requests, on one line each."""
        others = [each for each in self.waiting if each.id != self.state.request_id]
        if not others:
            return
        st.caption(f"{len(others)} more wait{'s' if len(others) == 1 else ''}")
        for each in others[:_MOST_OTHERS]:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button("Open", key=self._widget_key(each, "Open"), on_click=self.state.select, args=(each.id,))
                text = visible(f"{blocks.asker(each)}: {each}")
                st.text(text if len(text) <= _SHORT else f"{text[:_SHORT]}…")

    # --- The forms -----------------------------------------------------------------------------------

    def _draw_answers(self, request: ApprovalRequest, hidden: int) -> None:
        if hidden or st.session_state.get(self._widget_key(request, "whole")):
            st.toggle("Show all of it", key=self._widget_key(request, "whole"))
        if hidden:
            st.caption(f"To allow it, see all of it first: {hidden:,} more lines.")
        if self.barrier is not None:
            st.text(visible(f"{self.barrier.reason[0].upper()}{self.barrier.reason[1:]}."))
        may_allow, may_deny = self.barrier is None, self.barrier is None or not self.barrier.also_no
        if self.state.action == "editing" and may_allow:
            self._draw_edit_form(request)
        elif self.state.action == "noting" and may_deny:
            self._draw_note_form(request)
        elif self.state.action == "lasting" and may_allow and not hidden:
            self._draw_remember_form(request)
        else:
            self._draw_choices(request, unseen=hidden > 0)
        for text in blocks.people_lines(request, self.who, is_hub=not isinstance(self.inbox, StoreInbox)):
            st.text(text)

    def _draw_choices(self, request: ApprovalRequest, *, unseen: bool) -> None:
        off = unseen or self.barrier is not None
        no_edit = self.barrier is not None or (request.approvers is not None and request.approvers.count > 1)
        no_denial = self.barrier is not None and self.barrier.also_no
        with st.container(horizontal=True):
            self._button(request, "Allow once", self._submit_answer, request, self._approval(), disabled=off)
            if request.scopes:
                self._button(request, "Allow for…", self.state.start_action, "lasting", disabled=off)
            self._button(request, "Edit…", self.state.start_action, "editing", disabled=no_edit)
            self._button(request, "Deny", self._submit_answer, request, self._denial(None), disabled=no_denial)
            self._button(request, "Deny with a note…", self.state.start_action, "noting", disabled=no_denial)

    def _draw_note_form(self, request: ApprovalRequest) -> None:
        key = self._widget_key(request, "note")
        st.text_input("Why not? The agent is told.", key=key)
        self._draw_form_buttons(
            request, "Deny with this note", lambda: self._submit_answer(request, self._denial(st.session_state[key]))
        )

    def _draw_remember_form(self, request: ApprovalRequest) -> None:
        st.caption("Allow, and remember it for")
        for each in request.scopes:
            self._draw_fact(_WIDTHS[each.kind], visible(f"{each.label}; {also_allowed(request, each)}"))
        kinds = {_WIDTHS[each.kind]: each for each in request.scopes}
        spans = {each.words: each for each in lifetimes(request.remember_max)}
        often = {words: uses for uses, words in USES}
        scope = st.radio("For which calls", kinds, key=self._widget_key(request, "scope"), horizontal=True)
        left, right = st.columns(2)
        lifetime = left.selectbox("For how long", spans, key=self._widget_key(request, "span"))
        uses = right.selectbox("How often", often, key=self._widget_key(request, "uses"))
        choice = RememberedApproval(request=request, scope=kinds[scope], lifetime=spans[lifetime], uses=often[uses])
        also = len(choice.also_covers(self.waiting))
        if choice.problem or also:
            st.caption(choice.problem or f"This also answers {also} more open request{'' if also == 1 else 's'}.")

        def submit() -> None:
            self._submit_answer(request, choice.decision(who=self.who, channel=_CHANNEL))

        self._draw_form_buttons(request, "Allow and remember", submit, disabled=choice.problem is not None)

    def _draw_edit_form(self, request: ApprovalRequest) -> None:
        try:
            given = blocks.editable_json(request.args)
        except ValueError as error:
            st.text(visible(f"Nothing can be changed: {error}."))
            self._button(request, "Back", self.state.start_action, "")
            return
        key = self._widget_key(request, "draft")
        text = st.text_area("All arguments, as JSON or YAML", given, key=key, height=200)
        found = "Nothing was changed yet." if text == given else _read_edit(text, request.parameters)
        if text != self.state.draft:
            self.state.draft, self.state.since = text, time.time()
        if isinstance(found, str):
            st.text(visible(found))
        else:
            st.caption("This will run" if found else "This will run, without arguments")
            self._draw_blocks(blocks.argument_blocks(found, whole=True), "edited")
            st.caption(JUDGED_LATER)

        def submit() -> None:
            if isinstance(found, Mapping) and st.session_state[key] == text:
                self._submit_answer(request, self._approval(found))
            else:
                self.state.message = _TOO_SOON

        self._draw_form_buttons(request, "Allow with these arguments", submit, disabled=isinstance(found, str))

    def _draw_form_buttons(
        self, request: ApprovalRequest, label: str, submit: Callable[[], None], *, disabled: bool = False
    ) -> None:
        with st.container(horizontal=True):
            self._button(request, label, submit, disabled=disabled)
            self._button(request, "Back", self.state.start_action, "")

    # --- The answer ----------------------------------------------------------------------------------

    def _approval(self, args: Mapping[str, Any] | None = None) -> ApprovalDecision:
        return ApprovalDecision(approved=True, override_args=args, who=self.who, channel=_CHANNEL)

    def _denial(self, note: str | None) -> ApprovalDecision:
        return ApprovalDecision(approved=False, note=(note or "").strip() or None, who=self.who, channel=_CHANNEL)

    def _submit_answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Submit the answer to the displayed request, and keep the result as the message."""
        if time.time() - self.state.since < _SETTLE_SECONDS:
            self.state.message = _TOO_SOON
            return
        try:
            result = blocking.run(self.inbox.answer, request, decision)
        except UnknownRequest:
            self.state.message = "Your answer changed nothing: the request is there no more."
        except (StillOpen, StoreError) as error:
            self.state.message = f"Not answered: {error}."
        else:
            self.state.message = _result_text(result)
            self.state.action = ""
            if result.accepted and result.request.status != "open":
                self.state.select("")

    def _button(
        self, request: ApprovalRequest, label: str, act: Callable[..., None], *args: object, disabled: bool = False
    ) -> None:
        """Render a button that acts on the displayed request only."""

        def pressed() -> None:
            if self.state.request_id == request.id:  # else this is a second click, on a button of the request before
                act(*args)

        st.button(label, key=self._widget_key(request, label), on_click=pressed, disabled=disabled)

    def _widget_key(self, request: ApprovalRequest, name: str) -> str:
        return f"{self.key}-{request.id}-{name}"


def _read_edit(text: str, parameters: str) -> Mapping[str, Any] | str:
    """Parse and validate edited arguments, or return why they are refused."""
    try:
        args = read_arguments(text.encode(errors="surrogatepass"), "this")
    except (CanonicalError, ConfigurationError) as error:
        return f"This cannot be read: {error}."
    problem = schema_violation(args, parameters)
    return args if problem is None else f"This does not fit the tool: {problem}."


def _result_text(result: AnswerResult) -> str:
    request = result.request
    if not result.accepted:
        return f"Somebody was faster. {closed_text(request)} Your answer changed nothing."
    if request.status == "open":
        return f"Your yes to {request_title(request)} counts. {blocks.votes_text(request)}."
    if request.status == "denied":
        return f"Denied: {request_title(request)} does not run."
    alike = len(result.also_answered)
    also = f" The same answer was given to {alike} more open request{'' if alike == 1 else 's'}." if alike else ""
    return f"Allowed: {request_title(request)} may run.{' It is remembered.' if result.remembered else ''}{also}"
