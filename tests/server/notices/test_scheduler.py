"""People and programs elsewhere are told of questions: when, of what, and with which link."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook
from tests.server.ear import Ear

from sayso import ApprovalDecision
from sayso.channels import notify
from sayso.channels.notify import Message, NotifyChannel, SignedWebhook, build_message
from sayso.core import tokens
from sayso.core.approvers import Approvers, Escalation
from sayso.core.canonical import freeze
from sayso.core.model import ApprovalRequest, Rule
from sayso.errors import ConfigurationError, PolicyError
from sayso.server.hub import Hub
from sayso.server.notices import scheduler
from sayso.server.notices.scheduler import Notices, Recipient
from sayso.server.notices.settings_file import read_notices
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock
from sayso.testing.samples import sample_request

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + base64.b64encode(b"a secret of both sides").decode()
OPS = Approvers(roles=("ops",), remind=300.0, escalate=Escalation(role="lead", after=700.0))


class Pocket:
    """A person's phone."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    async def send(self, message: Message) -> None:
        self.messages.put_nowait(message)

    async def next(self) -> Message:
        with anyio.fail_after(10):
            return await self.messages.get()


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    store = SqliteStore(tmp_path / "sayso.db")
    yield Hub(store, clock=FixedClock())
    await store.aclose()


@contextlib.asynccontextmanager
async def telling(hub: Hub, *recipients: Recipient) -> AsyncGenerator[None]:
    told = Notices(hub, recipients, url="https://hub.example/")
    await told.load_progress()
    running = asyncio.ensure_future(told.run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def ask(hub: Hub, **facts: Any) -> ApprovalRequest:
    request = replace(sample_request(asked_at=hub.clock.now()), **facts)
    return await hub.store.open(request)


def person(name: str, *roles: str, project: str = "*") -> tuple[Pocket, Recipient]:
    pocket = Pocket()
    return pocket, Recipient(destinations=(pocket,), name=name, roles=roles, project=project)


async def test_a_message_has_a_link_for_its_reader_that_opens_the_request_once(hub: Hub) -> None:
    pocket, ann = person("ann", "ops")
    async with telling(hub, ann):
        request = await ask(hub)
        message = await pocket.next()
    assert (message.event, message.request_id) == ("asked", request.id)
    assert message.link is not None
    assert message.link.startswith("https://hub.example/sign-in?code=sayso_link_")
    (token,) = await hub.store.tokens()
    assert (token.kind, token.name, token.roles, token.opens) == ("link", "ann", ("ops",), request.id)
    code, _, opens = message.link.partition("code=")[2].partition("&opens=")
    assert tokens.is_valid(token, code, hub.clock.now())
    assert opens == request.id, "for a browser that is signed in, whether the link is used up or not"
    assert token.expires_at == hub.clock.now() + 3600


@pytest.mark.proves("H10")
async def test_a_message_shows_no_secret_and_nothing_that_acts_on_a_screen(hub: Hub) -> None:
    args = {"password": "hunter2", "note": "a\x1b[2Jb\u202ec\nanswer: https://evil.example", "long": "x" * 5000}
    key = tokens.make("approver", "ann", now=0.0)[1]
    asked = replace(sample_request(args={**args, "with": key}), agent_path=("y" * 200,) * 50, asked_by="bot")
    message = build_message(asked, arguments=("password", "note", "with", "long"))
    assert "hunter2" not in message.text
    assert key not in message.text
    assert (message.title[:6], len(message.title)) == ("bot > ", 201)
    assert not {"\x1b", "\u202e", "\n"} & set(message.text), "nobody can write a line of their own into it"
    assert len(message.text) < 1100
    shorter, longer = (sample_request(args={**args, "long": "x" * size}, call_id="c") for size in (5000, 5001))
    texts = [build_message(each, arguments=list(args)).text for each in (shorter, longer)]
    assert texts[0] == texts[1], "both are cut off"
    assert longer.digest != shorter.digest, "what a yes is to is never cut off"


@pytest.mark.proves("H10")
async def test_a_chat_service_gets_tool_agent_and_link_and_of_the_arguments_only_what_the_owner_named() -> None:
    request = replace(
        sample_request(args={"to": "eve", "amount": 5000, "iban": "DE00 1234"}),
        reason="pays DE00 1234",
        description="Pay 5000 to DE00 1234",
        asked_by="bot",
    )
    async with Ear() as ear:
        for arguments, shown in (
            ((), "arguments: see the inbox"),
            (("to", "amount", "unknown"), 'arguments: {"to": "eve", "amount": 5000}; others: see the inbox'),
            (("to", "amount", "iban"), 'arguments: {"to": "eve", "amount": 5000, "iban": "DE00 1234"}'),
        ):
            await NotifyChannel(f"json://{ear.address}/", arguments=arguments).announce(request)
            _, body = await ear.next()
            sent = json.loads(body)
            assert (sent["title"], sent["message"]) == ("bot wants to run pay", shown)
            assert ("1234" in body) == ("iban" in arguments)
    assert build_message(replace(request, args=freeze({}))).text == "no arguments"


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[Open](https://evil.example)", "⟨U+005B⟩Open⟨U+005D⟩(https:⟨U+002F⟩/evil.example)"),
        ("pay https://hub.example.evil", "pay https:⟨U+002F⟩/hub.example.evil"),
        ("www.evil.example", "www⟨U+002E⟩evil.example"),
        ("@channel <!here> @ann", "⟨U+0040⟩channel ⟨U+003C⟩!here> ⟨U+0040⟩ann"),
        ("||rm|| ~~no~~ *x* `y`", None),
        ("sk_live_51Nabcdefghijklmnopqrstuv", "[redacted]"),
        ("github/create_issue", "github/create_issue"),
        ("fs.read-file: a (b) > c@d.example", "fs.read-file: a (b) > c@d.example"),
    ],
)
async def test_no_name_is_a_link_a_mention_or_hidden_words_in_a_chat(name: str, shown: str | None) -> None:
    asked = replace(sample_request(), tool_name=name, agent_path=("a", name))
    message = build_message(asked)
    if shown is None:
        assert not set("|~*`") & set(message.title)
    else:
        assert message.title == f"a > {shown} wants to run {shown}"
        assert (message.tool == name) == (shown != "[redacted]"), "a program is told the name itself"


@pytest.mark.proves("H10")
async def test_a_value_that_the_owner_named_is_no_link_with_other_words_and_calls_nobody() -> None:
    value = "[the inbox](https://evil.example) <https://evil.example|the inbox> <!channel> @everyone eve@all.example"
    message = build_message(sample_request(args={"to": value}), arguments=("to",))
    assert message.text == (
        'arguments: {"to": "[the inbox]⟨U+0028⟩https://evil.example) ⟨U+003C⟩https://evil.example|the inbox> '
        '⟨U+003C⟩!channel> ⟨U+0040⟩everyone eve@all.example"}'
    )
    assert message.args == {"to": value}


@pytest.mark.proves("H10")
async def test_the_log_does_not_have_the_address_of_a_webhook_that_fails(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_ATTEMPTS", 1)
    async with Ear() as ear:
        for refusals, why in ((1, "status 503"), (0, "ConnectError")):
            ear.refuse = refusals
            address = ear.address if refusals else "127.0.0.1:1"
            webhook = SignedWebhook(f"http://{address}/hook/hunter2?key=hunter2", SECRET)
            await notify.send_to_all(build_message(sample_request()), [webhook])
            assert f"the webhook at 127.0.0.1 did not take it: {why}" in caplog.text
    assert "hunter2" not in caplog.text


async def test_each_person_is_shown_the_arguments_that_the_owner_named_for_them(hub: Hub) -> None:
    pocket, ann = person("ann")
    other, bob = person("bob")
    async with telling(hub, ann, replace(bob, arguments=("amount",))):
        await ask(hub, args=freeze({"to": "eve", "amount": 5000}))
        texts = [(await each.next()).text.partition("\n")[0] for each in (pocket, other)]
    assert texts == ["arguments: see the inbox", 'arguments: {"amount": 5000}; others: see the inbox']


async def test_people_are_reminded_and_others_are_told_when_nobody_answers(hub: Hub) -> None:
    clock = hub.clock
    assert isinstance(clock, FixedClock)
    pocket, ops = person("olga", "ops")
    phone, lead = person("lea", "lead")
    async with telling(hub, ops, lead):
        request = await ask(hub, approvers=OPS)
        assert (await pocket.next()).event == "asked"
        clock.advance(300)
        assert (await pocket.next()).event == "reminder"
        clock.advance(300)
        assert (await pocket.next()).event == "reminder"
        assert phone.messages.empty()
        clock.advance(100)
        assert (await phone.next()).event == "escalated"
        await hub.store.close(request.id, "denied", ApprovalDecision(approved=False), now=clock.now())
        clock.advance(10_000)
        other = await ask(hub)
        assert (await pocket.next()).request_id == other.id, "a closed question reminds nobody"


async def test_only_those_are_told_who_could_say_yes(hub: Hub) -> None:
    pocket, ann = person("ann", "sales")
    other, bob = person("bob", "ops", project="shop")
    phone, cleo = person("cleo", "ops")
    async with telling(hub, ann, bob, cleo):
        await ask(hub, approvers=OPS, project="lab")
        await phone.next()
    assert pocket.messages.empty()
    assert other.messages.empty()


async def test_what_was_asked_while_the_hub_was_down_is_told_once_when_it_is_back(hub: Hub) -> None:
    pocket, ann = person("ann")
    async with telling(hub, ann):
        told = await ask(hub)
        assert (await pocket.next()).request_id == told.id
    missed = await ask(hub)
    async with telling(hub, ann):
        assert (await pocket.next()).request_id == missed.id
        await ask(hub)
        await pocket.next()
    assert pocket.messages.empty()


class Stuck(Pocket):
    """A phone that never takes anything."""

    async def send(self, message: Message) -> None:
        await super().send(message)
        await asyncio.get_running_loop().create_future()


async def test_of_several_hubs_one_tells_and_when_it_is_gone_another_goes_on(tmp_path: Path) -> None:
    clock, pocket = FixedClock(), Pocket()
    stores = [SqliteStore(tmp_path / "sayso.db") for _ in range(3)]
    hubs = [Hub(store, clock=clock) for store in stores]
    ann = Recipient(destinations=(pocket,), name="ann")
    all_of_them = [Notices(hub, [ann], url="https://hub.example") for hub in hubs]
    await all_of_them[0].load_progress()
    running = [asyncio.ensure_future(each.run()) for each in all_of_them]
    known, again = list[str](), list[str]()
    try:
        while running:
            for _ in range(3):
                clock.advance(10.0)  # through the turns, and from each to the next
                request = await ask(hubs[0])
                while (told := (await pocket.next()).request_id) != request.id:
                    again.append(told)  # whoever takes over cannot know what was told a moment before
                known.append(told)
            await _end(running.pop(0))
            clock.advance(20.0)
    finally:
        await _end(*running)
        for store in stores:
            await store.aclose()
    assert pocket.messages.empty()
    assert len(again) == len(set(again)) < 6, "one told, not all of them"
    assert set(again) <= set(known)


async def test_a_message_that_was_under_way_when_the_hub_broke_down_is_told_by_the_next(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, pocket = Stuck(), Pocket()
    monkeypatch.setattr(scheduler, "_SHUTDOWN_SECONDS", 0.0)
    async with telling(hub, Recipient(destinations=(stuck,), name="ann", roles=("ops",))):
        request = await ask(hub, approvers=OPS)
        assert (await stuck.next()).request_id == request.id
    assert isinstance(hub.clock, FixedClock)
    hub.clock.advance(700.0)
    async with telling(hub, Recipient(destinations=(pocket,), name="lea", roles=("ops", "lead"))):
        events = [(await pocket.next()).event for _ in range(4)]
    assert sorted(events) == ["asked", "escalated", "reminder", "reminder"]


async def _end(*tasks: asyncio.Task[None]) -> None:
    for each in tasks:
        each.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def test_a_webhook_is_signed_with_its_time_and_tried_again_under_the_same_id(hub: Hub) -> None:
    async with Ear() as ear:
        ear.refuse = 1
        webhook = Recipient(destinations=(SignedWebhook(f"http://{ear.address}/hook", SECRET),))
        async with telling(hub, webhook):
            request = await ask(hub)
            headers, body = await ear.next()
            await hub.store.close(request.id, "denied", ApprovalDecision(approved=False), now=1.0)
            _, closed = await ear.next()
    assert headers["webhook-id"] == f"msg_{request.id}_asked_{hub.clock.now():.0f}", "whichever hub tells it"
    told = Webhook(SECRET).verify(body, headers)
    page = f"https://hub.example/#/inbox/{request.id}"
    assert (told["type"], told["data"]["request_id"], told["data"]["link"]) == ("approval.asked", request.id, page)
    assert json.loads(closed)["type"] == "approval.closed"
    with pytest.raises(Exception, match="signature"):
        Webhook(SECRET).verify(body.replace("pay", "say"), headers)


async def test_the_hub_page_shows_the_body_of_a_webhook_as_it_is(hub: Hub) -> None:
    page = Path(__file__).parents[3].joinpath("docs/hub.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    clock = hub.clock
    assert isinstance(clock, FixedClock)
    clock.advance(1_790_000_000 - clock.now())
    async with Ear() as ear:
        webhook = Recipient(destinations=(SignedWebhook(f"http://{ear.address}/hook", SECRET),))
        async with telling(hub, webhook):
            await ask(
                hub,
                id="01a1e5fee45a74a5862c67dc61fa485e",
                project="shop",
                asked_by="builder",
                agent_path=("payer",),
                description="Pay 5000 to eve",
                reason="tools.pay is 'required'",
                rule=Rule(source="sayso.yaml", line=3, key="tools.pay"),
                args=freeze({"to": "eve", "amount": 5000, "token": "hunter2"}),
                expires_at=clock.now() + 600,
            )
            headers, body = await ear.next()
    assert Webhook(SECRET).verify(body, headers) == json.loads(example)


@pytest.mark.proves("H10")
def test_the_data_of_a_message_shows_no_secret_and_nothing_that_acts_on_a_screen() -> None:
    hidden = "a\x1b[2Jb\u202ec"
    args = {"password": "hunter2", hidden: [hidden, {"api_key": "hunter2", "n": 5}], "a\\x1b[2Jb\\u202ec": 6}
    key = tokens.make("approver", "ann", now=0.0)[1]
    asked = replace(
        sample_request(args=args), reason=key, description=f"{hidden} {key}", rule=Rule(source=hidden, key=key)
    )
    told = build_message(asked)
    data = json.dumps(msgspec.to_builtins(told))
    assert "hunter2" not in data
    assert key not in data
    assert told.rule is not None
    assert not {"\x1b", "\u202e"} & set(told.description + told.reason + told.rule)
    shown = "a\\x1b[2Jb\\u202ec"
    assert told.args == {
        "password": "[redacted]",
        shown: [shown, {"api_key": "[redacted]", "n": 5}],
        f"{shown}'": 6,
    }, "a name that looks like another hides nothing"
    assert not told.args_cut


def test_long_arguments_are_cut_in_the_data_too() -> None:
    message = build_message(sample_request(args={"first": 1, "text": "x" * 900, "more": "y" * 900, "last": "z" * 900}))
    assert message.args_cut
    assert (message.args["first"], message.args["text"]) == (1, "x" * 900)
    assert len(json.dumps(message.args)) < 1100
    many = build_message(sample_request(args={f"name{at}": at for at in range(400)}))
    assert (many.args_cut, many.args["name0"]) == (True, 0)
    assert sum(map(len, many.args)) <= 1000


async def test_a_channel_tells_through_a_service_and_leaves_the_answer_to_others() -> None:
    async with Ear() as ear:
        channel = NotifyChannel(f"json://{ear.address}/")
        assert await channel.announce(sample_request()) is None
        _, body = await ear.next()
        assert json.loads(body)["title"] == "an agent wants to run pay"
    assert await channel.announce(sample_request()) is None, "a service that is down holds up nobody"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("people: [{name: ann}]", "has no `to`"),
        ("people: [{name: ann, to: ['nonsense://x']}]", "no notification URL that Apprise knows"),
        ("people: [{name: ann, to: ['env:NOT_SET_HERE']}]", "does not have; set it"),
        ("webhooks: [{url: 'http://127.0.0.1.evil.example/', secret: whsec_eA==}]", "must be https"),
        ("webhooks: [{url: 'https://a.example', secret: whsec_ü}]", "write `whsec_` followed by base64"),
        ("people: [{name: ann, to: ['json://x'], arguments: to}]", "arguments"),
        ("peeple: []", "unknown key 'peeple'"),
    ],
)
def test_a_file_with_mistakes_says_what_and_where(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "notices.yaml"
    file.write_text(content)
    with pytest.raises(PolicyError) as caught:
        read_notices(file)
    assert problem in str(caught.value)
    assert f"{file}:1" in str(caught.value)


def test_a_file_names_people_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    file = tmp_path / "notices.yaml"
    file.write_text(
        "people: [{name: ann, roles: [ops], arguments: [to, amount], to: ['json://127.0.0.1:1/']}]\n"
        "webhooks: [{url: 'https://ci.example/hook', secret: 'env:HOOK_SECRET', project: shop}]\n"
    )
    ann, program = read_notices(file)
    assert (ann.name, ann.roles, ann.project, ann.arguments) == ("ann", ("ops",), "*", ("to", "amount"))
    assert (program.name, program.project) == ("", "shop")


def test_a_service_that_nobody_knows_is_refused_without_telling_its_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        NotifyChannel("nonsense://user:hunter2@x")
    assert "hunter2" not in str(caught.value)


def test_arguments_that_are_one_text_are_refused_with_the_way_to_write_them() -> None:
    with pytest.raises(ConfigurationError, match=r"is a list of names; write \['to'\]"):
        NotifyChannel("json://127.0.0.1:1/", arguments="to")
