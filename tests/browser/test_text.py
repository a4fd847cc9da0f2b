"""What an agent wrote is shown as it is: no markup, no script, no character that hides, no digit that changes."""
# ruff: noqa: RUF001 - look-alikes are what this is about

from __future__ import annotations

import random
import re
import time
import unicodedata
from typing import Any

import pytest
from playwright.async_api import expect
from tests.browser.stage import Stage, request

from sayso import ApprovalDecision, ApprovalPresentation
from sayso.channels.display.sanitize import visible
from sayso.core.approvers import Approvers, Seen
from sayso.core.model import Rule
from sayso.server.routes import page

CASES = [
    "plain text, with umlauts äöü and 日本語",
    "привет, мир",
    "tab\tand\nline\r\n",
    "\x1b[31mred\x1b[0m",
    "\u202egpj.exe",
    "zero\u200bwidth\u2060joined\ufeff",
    "\U000e0041tag",
    "pаypal.com",
    "аррӏе",
    "ｒｍ -rf 𝐫𝐦",
    "x" + " " * 10_000 + "y",
    "    indented",
    "a" + "\u0301" * 50,
    "a" + "\u0344" * 9 + "\u0f73" * 9,
]
LANGUAGES = ("python", "shell", "json", "javascript", "sql")
CODE = (
    "def f(x):\n    return f'{x}' # done\n",
    '"""a\nb"""',
    'for i in $(ls); do rm -rf "$i"; done',
    '{"a": [1, -2.5e3, null]}',
    "SELECT * FROM t -- all\n",
    "const x = `a${1}`; /* c */ ",
    "x.constructor __proto__ 1_000",
)
WITHIN = ("{}", "a{}b", "а{}", "a{}{}{}{}{}{}")
# Where the scripts, signs and disguises are; the rest is large scripts, in which one character is like the next.
_PARTS = (
    (0x0, 0x3400),
    (0xA400, 0xAC00),
    (0xF800, 0x11000),
    (0x1D000, 0x1DC00),
    (0x1EC00, 0x1F400),
    (0xE0000, 0xE0400),
)
RANGES = [first for start, end in _PARTS for first in range(start, end, 0x400)]


@pytest.mark.proves("H10")
async def test_the_page_makes_the_same_characters_visible_as_the_terminal(stage: Stage) -> None:
    ann = await stage.person()
    see = 'async (texts) => { const { visible } = await import("/page/sanitize.js"); return texts.map(visible); }'
    assert await ann.page.evaluate(see, CASES) == [visible(each) for each in CASES]


@pytest.mark.proves("H10")
async def test_the_page_and_the_terminal_agree_about_every_character(stage: Stage) -> None:
    ann = await stage.person()
    see = """async ([assigned, unassigned, within]) => {
        const { visible } = await import("/page/sanitize.js");
        const isKnown = (each) => !/\\p{Cn}/u.test(each);
        const alike = [...[...assigned].filter(isKnown), ...[...unassigned].filter((each) => !isKnown(each))];
        const inside = (text) => alike.map((each) => text.replaceAll("{}", each)).join(" ");
        return [alike.join(""), within.map((text) => visible(inside(text)))];
    }"""
    for first in RANGES:
        block = [chr(code) for code in range(first, first + 0x400)]
        assigned = "".join(each for each in block if unicodedata.category(each) != "Cn")
        unassigned = "".join(each for each in block if unicodedata.category(each) == "Cn")
        # Those about which two versions of Unicode differ are left out.
        alike, shown = await ann.page.evaluate(see, [assigned, unassigned, WITHIN])
        for within, text in zip(WITHIN, shown, strict=True):
            assert text == visible(" ".join(within.replace("{}", each) for each in alike)), (
                f"U+{first:04X} in {within!r}"
            )


@pytest.mark.proves("H10")
async def test_code_in_colours_shows_letter_by_letter_what_text_without_them_shows(stage: Stage) -> None:
    chance = random.Random(7)  # noqa: S311 - the same texts every time
    parts = [*(each for each in CASES if len(each) < 1000), *CODE, *"\"'`#\\/*-$(){}<>|&;@\n\u200b\u0430"]
    texts = [*parts, *("".join(chance.choices(parts, k=12)) for _ in range(150))]
    paint = """async ([texts, languages]) => {
        const { colouredLines } = await import("/page/highlight.js");
        const written = (nodes) => nodes.map((each) => each.textContent ?? each).join("");
        return languages.map((language) => texts.map((text) => colouredLines(text, language).map(written)));
    }"""
    ann = await stage.person()
    expected = [[visible(line) for line in text.split("\n")] for text in texts]
    for shown in await ann.page.evaluate(paint, [texts, [*LANGUAGES, None]]):
        assert shown == expected


async def test_code_is_coloured_by_its_language_and_what_hides_in_it_stays_marked(stage: Stage) -> None:
    python = '# not "code"\nfor each in range(3):\n    print("p\u0430ypal\u202e", each)'
    args = {"path": "x.py", "content": python, "command": "rm -rf $HOME  # all", "note": "if it rains\nfor a day"}
    await stage.opened(request("write", args=args), request("load", args={"data": '{"a": [1, true]}'}))
    ann = await stage.person()
    await ann.opens("write")
    block = ann.page.locator("[data-name=content]")
    await expect(block.locator(".type")).to_contain_text("coloured as Python")
    await expect(block.locator(".comment")).to_have_text('# not "code"')
    await expect(block.locator(".keyword")).to_have_text(["for", "in"])
    await expect(block.locator("mark.odd")).to_have_text(["⟨U+0430⟩", "\\u202e"])
    command = ann.page.locator("[data-name=command]")
    await expect(command.locator(".option")).to_have_text("-rf")
    await expect(command.locator(".defined")).to_have_text("$HOME")
    await expect(ann.page.locator("[data-name=note] .token")).to_have_count(0)
    await ann.shot("code")
    await ann.opens("load")
    await expect(ann.page.locator("[data-name=data] .keyword")).to_have_text("true")


async def test_numbers_are_read_and_written_without_changing_a_digit(stage: Stage) -> None:
    ann = await stage.person()
    again = """async (text) => {
        const { parseJson, writeJson } = await import("/page/exact_json.js");
        return writeJson(parseJson(text));
    }"""
    text = '{"a":[1,1.0,1e400,-0,12345678901234567890,0.1,1E+2,"6",6],"__proto__":{"x":null},"\\ud800":"\\\\\\"\\n"}'
    assert await ann.page.evaluate(again, text) == text
    for wrong in ('{"a":1,}', '{"a":1,"a":2}', "[01]", '"\n"', "NaN", "[1] 2", '{"a" 1}', "{a:1}", '"open', "", "-"):
        with pytest.raises(Exception, match="SyntaxError"):
            await ann.page.evaluate(again, wrong)


async def test_arguments_are_shown_with_their_types_and_exactly(stage: Stage) -> None:
    args: dict[str, Any] = {
        "text": "6",
        "number": 6,
        "big": 12345678901234567890,
        "float": 6.0,
        "none": None,
        "is": True,
    }
    await stage.opened(request("refund", args={**args, "deep": {"list": [1, "1", {"x": "\u202e"}]}}))
    ann = await stage.person()
    await ann.opens("refund")
    shown = {each: ann.page.locator(f"[data-name={each}] .value") for each in [*args, "deep"]}
    for name, text in {
        "text": '"6"',
        "number": "6",
        "big": "12345678901234567890",
        "float": "6.0",
        "none": "null",
        "is": "true",
    }.items():
        await expect(shown[name]).to_have_text(text)
    await expect(ann.page.locator("[data-name=text] .type")).to_have_text("text")
    await expect(ann.page.locator("[data-name=number] .type")).to_have_text("number")
    assert re.sub(r"\s", "", await shown["deep"].inner_text()) == '{"list":[1,"1",{"x":"\\u202e"}]}'


async def test_a_diff_has_line_numbers_and_signs_and_shell_parts_say_what_the_rules_say(stage: Stage) -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -7,3 +7,3 @@\n same\n-old\n+new\n\\ No newline at end of file\n"
    lines = "    ls  (rule)\nask git push  (no rule names it)\nno  rm -rf /  (blocked)\n\nruns /bin/bash"
    await stage.opened(
        request("edit", presentation=ApprovalPresentation(title="Change /x.py", diff=diff)),
        request("shell", presentation=ApprovalPresentation(title="Run it", content=lines, language="bash")),
    )
    ann = await stage.person()
    await ann.opens("edit")
    rows = ann.page.locator(".diff .line")
    await expect(rows).to_have_text([
        "--- a/x.py", "+++ b/x.py", "@@ -7,3 +7,3 @@", "77 same", "8removed: -old", "8added: +new",
        "\\ No newline at end of file",
    ])  # fmt: skip
    await ann.shot("diff")
    await ann.opens("shell")
    await expect(ann.page.locator(".verdict")).to_have_text(["may run", "asks", "blocked"])
    await ann.shot("shell")


MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{1+1}}&amp;\'"</textarea></title>'


async def test_markup_and_script_in_every_field_is_text_and_runs_nothing(stage: Stage) -> None:
    asked = request(
        f"tool {MARKUP}",
        args={MARKUP: MARKUP, "deep": {MARKUP: [MARKUP]}},
        description=MARKUP,
        reason=MARKUP,
        summary=MARKUP,
        session=MARKUP,
        run=MARKUP,
        asked_by="agent",
        agent_path=(MARKUP, MARKUP),
        rule=Rule(source=MARKUP, key=MARKUP, line=3),
        presentation=ApprovalPresentation(
            title=MARKUP, diff=f"--- {MARKUP}\n+++ b\n@@ -1 +1 @@\n-{MARKUP}\n+{MARKUP}\n"
        ),
        seen=(Seen(who=MARKUP, channel=MARKUP, at=time.time()),),
        votes=(ApprovalDecision(approved=True, who=MARKUP, channel=MARKUP, decided_at=1.0),),
        approvers=Approvers(count=3, roles=(MARKUP,)),
        parameters='{"type": "object", "properties": {"<img src=x onerror=window.hacked=1>": {"type": "string", '
        '"description": "<script>window.hacked=1</script>", "enum": ["<b>x</b>"]}}}',
    )
    closed = request("closed", args={"a": MARKUP})
    await stage.opened(asked, closed)
    await stage.hub.controller.answer(
        closed.id, ApprovalDecision(approved=False, note=MARKUP), who=MARKUP, channel=MARKUP
    )
    editable = request(f"edit {MARKUP}", args=asked.args, parameters=asked.parameters)
    await stage.opened(editable)
    ann = await stage.person()
    await ann.opens(f"edit {MARKUP}")
    await ann.page.keyboard.press("e")
    await expect(ann.page.get_by_role("dialog")).to_be_visible()
    await ann.page.keyboard.press("Escape")
    await ann.opens(f"tool {MARKUP}")
    await expect(ann.page.locator("#left")).to_contain_text(MARKUP)
    await ann.page.keyboard.press("x")
    await ann.together("Allow…").click()
    await ann.page.keyboard.press("Escape")
    for view in ("history", "remembered", "overview"):
        await ann.page.goto(f"{stage.url}#/{view}")
    await ann.page.goto(f"{stage.url}#/history/{closed.id}")
    await expect(ann.page.locator("#view-history blockquote")).to_have_text(MARKUP)
    await expect(ann.page.locator("main img, main script, main b")).to_have_count(0)
    assert await ann.page.evaluate("window.hacked") is None


async def test_a_yes_is_taken_only_when_all_of_it_was_unfolded_and_in_view(stage: Stage) -> None:
    await stage.opened(request("send_mail", args={"body": "\n".join(f"line {at}" for at in range(200)), "last": "x"}))
    ann = await stage.person()
    await ann.opens("send_mail")
    allow = ann.page.locator("[data-act=allow]")
    await expect(allow).to_have_attribute("aria-disabled", "true")
    await expect(ann.page.locator("#left")).to_contain_text("To allow it, see all of it first: 1 folded")
    await ann.page.keyboard.press("y")
    await expect(ann.notice).to_contain_text("see all of it first")
    for _ in range(400):  # what is in view is noticed a moment later
        if await allow.get_attribute("aria-disabled") is None:
            break
        await ann.page.keyboard.press("v")
        await ann.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await expect(ann.page.locator("#left")).to_have_text("All of it was on your screen.")
    await expect(ann.page.locator("[data-name=body] .line")).to_have_count(200)
    assert (await stage.store.pending())[0].status == "open"
    await ann.settles()
    await ann.page.keyboard.press("y")
    await expect(ann.page.locator(".result")).to_contain_text("Allowed by ann")


async def test_every_file_of_the_page_has_its_type_and_a_strict_policy(stage: Stage) -> None:
    ann = await stage.person()
    for name in ("", "sign-in", "page/main.js", "page/style.css", "page/icon.svg"):
        answer = await ann.page.request.get(f"{stage.url}{name}")
        policy = answer.headers["content-security-policy"]
        assert answer.ok
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = await ann.page.request.get(f"{stage.url}{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status == 304
    for name in ("page/nothing.js", "page/..%2fpage.py", "page/%2e%2e/page.py", "page/__pycache__"):
        assert (await ann.page.request.get(f"{stage.url}{name}")).status == 404


def test_the_page_names_all_its_modules_and_nothing_from_elsewhere() -> None:
    folder = page.FOLDER
    shell = (folder / "index.html").read_text()
    modules = {"answer_keys.js", *(each.name for each in folder.glob("*.js"))} - {"sign-in.js"}
    assert set(re.findall(r'"page/([a-z_-]+\.js)"', shell)) == modules
    for file in folder.iterdir():
        text = file.read_text()
        assert not re.findall(r"(?:https?:)?//[a-z]", text.replace("http://www.w3.org/", "")), file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), (
            file.name
        )
        assert file.suffix != ".html" or not re.search(r"\sstyle=|\son[a-z]+=|<script(?![^>]* src=)", text), file.name


async def test_a_description_has_the_label_of_whoever_gave_it_and_nobodys_answer_names_nobody(stage: Stage) -> None:
    by = {"by_tool": "tool", "by_policy": "policy", "by_default": "default"}
    requests = [request(tool, description="Pay somebody", described_by=each) for tool, each in by.items()]
    await stage.opened(*requests)
    ann = await stage.person()
    for tool, label in (("by_tool", "The tool says"), ("by_policy", "The policy says")):
        await ann.opens(tool)
        await expect(ann.page.locator("dl.why dt").first).to_have_text(label)
    await ann.opens("by_default")
    await expect(ann.page.locator("dl.why dt").first).to_have_text("Because")
    nobody = ApprovalDecision(approved=False, note="nobody can be asked: it is night", unattended=True)
    await stage.hub.controller.store.close(requests[2].id, "withdrawn", nobody, now=1.0)
    result = ann.page.locator(".result")
    await expect(result).to_contain_text("Withdrawn: nobody could be asked.")
    await expect(result).not_to_contain_text("Denied")
    await ann.shot("withdrawn")
