"""An agent works in a real folder, and nothing that matters happens there without your say-so.

Run it in a terminal, and you are asked. Run it without one (`< /dev/null`), and nobody can be: what would have to be
asked is denied. The agent is a scripted list of calls; the files, the store and the audit are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sayso import ApprovalController, ApprovalDecision, ApprovalError, ApprovalRequest, Policy, audit, guard

POLICY = Policy(
    {
        "read_file": "none",
        "delete_all": {"approval": "blocked", "block_reason": "nobody may empty this folder"},
    },
    default="required",
)

LOG_LINE = {"name": "log.txt", "line": "looked at the orders"}
STORY: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"name": "orders.csv"}, "The policy lets this run."),
    ("write_file", {"name": "report.txt", "text": "3 orders, 120 euros"}, "The policy says: ask."),
    ("append_line", LOG_LINE, "Ask again, but an answer can be remembered."),
    ("append_line", LOG_LINE, "The same call again: a remembered yes is enough."),
    ("send_mail", {"to": "everyone@example.com", "text": "The report is ready."}, "The right idea, a wrong detail."),
    ("delete_all", {}, "The policy blocks this: nobody is even asked."),
    ("delete_file", {"name": "orders.csv"}, "The agent tidies up too much."),
]
HINTS = {
    "write_file": "y",
    "append_line": "s",
    "send_mail": "e, then ann@example.com, then Enter",
    "delete_file": "n keep the originals",
}


# The tools: plain functions that know nothing of sayso.


def read_file(name: str) -> str:
    return here(name).read_text(encoding="utf-8")


def write_file(name: str, text: str) -> str:
    here(name).write_text(text + "\n", encoding="utf-8")
    return f"wrote {name}"


def append_line(name: str, line: str) -> str:
    with here(name).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return f"added a line to {name}"


def send_mail(to: str, text: str) -> str:
    append_line("outbox.txt", f"To {to}: {text}")
    return f"sent to {to}"


def delete_file(name: str) -> str:
    here(name).unlink()
    return f"deleted {name}"


def delete_all() -> str:
    for file in Path.cwd().iterdir():
        file.unlink()
    return "deleted everything"


def here(name: str) -> Path:
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a file of this folder")
    return Path(name)


TOOLS: dict[str, Callable[..., str]] = {
    tool.__name__: tool for tool in (read_file, write_file, append_line, send_mail, delete_file, delete_all)
}


def run_agent(tools: Mapping[str, Callable[..., str]]) -> None:
    """Make the calls of the story, one after the other; a refused one does not end the run."""
    for number, (name, args, why) in enumerate(STORY, 1):
        print(f"\n{bold(f'{number}. {name}')}  {dim(why)}")
        try:
            result = tools[name](**args)
        except ApprovalError as error:
            say(f"did not run: {error.reason}", red)
        except (OSError, TypeError, ValueError) as error:  # edited arguments may not suit the tool
            say(f"failed: {error}", red)
        else:
            say(f"ran: {result}", green)


def ask(request: ApprovalRequest) -> ApprovalDecision:
    """Show a request in the terminal and read the answer; whatever is not clearly a yes is a no."""
    for name, value in request.args.items():
        say(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    say("y once · s this session · e edit · n no, with a note if you like · else: no", dim)
    try:
        return read_answer(request)
    except (EOFError, ValueError):
        print()
        return answer(approved=False, note="no answer")


def read_answer(request: ApprovalRequest) -> ApprovalDecision:
    hint = dim(f"(try: {HINTS[request.tool_name]})")
    key, _, note = input(f"   Run it? {hint} ").strip().partition(" ")
    match key.lower(), note:
        case (("y" | "yes"), ""):
            return answer(approved=True)
        case "s", "":
            return answer(approved=True, remember="session")
        case "e", "":
            return answer(approved=True, override_args=edit(request.args))
        case (("n" | "no"), _):
            return answer(approved=False, note=note or None)
        case _:
            return answer(approved=False, note="that was none of the keys")


def edit(args: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each argument anew; Enter keeps it as it is."""
    edited = dict(args)
    for name, value in args.items():
        text = input(f"   {visible(name)} (Enter keeps it): ")
        if text:
            edited[name] = text if isinstance(value, str) else json.loads(text)
    return edited


def answer(**terms: Any) -> ApprovalDecision:  # noqa: ANN401 - the fields of a decision
    return ApprovalDecision(who="you", channel="terminal", **terms)


async def report(controller: ApprovalController) -> None:
    """Print the audit, check its chain, and close the store."""
    print(f"\n{bold('The audit')}, as the store has it:\n")
    print(dim(row("no", "time", "tool", "step", "who", "outcome or reason")))
    async for entry in audit.entries(controller.store):
        moment = time.strftime("%H:%M:%S", time.localtime(entry["at"]))
        who = entry.get("who") or entry.get("by") or ""
        print(row(entry["number"], moment, entry["tool"], entry["step"], who, outcome(entry)))
    last = await audit.verify(controller.store)
    print(f"\nThe chain is whole: {last} entries, each sealed by a hash over the one before.")
    await controller.aclose()


def outcome(entry: Mapping[str, Any]) -> str:
    match entry:
        case {"step": "asked"}:
            return json.dumps(entry["args"], ensure_ascii=False)
        case {"step": "approved", "final_args": args}:
            return f"edited: {json.dumps(args, ensure_ascii=False)}"
        case {"step": "approved"}:
            return "for this session" if entry.get("remember") else "once"
        case {"step": "claimed"}:
            return "this approval is used up"
        case _:
            return next((str(entry[key]) for key in ("note", "result", "reason") if key in entry), "")


def row(*cells: object) -> str:
    widths = (2, 8, 11, 9, 6, 33)
    return "  ".join(fit(visible(str(cell)), width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def show_files() -> None:
    print(f"\n{bold('The files')} that are really there:\n")
    for file in sorted(Path.cwd().iterdir()):
        text = file.read_text(encoding="utf-8").strip().replace("\n", " | ")
        print(f"   {fit(visible(file.name), 12)} {fit(visible(text), 60).rstrip()}")


def visible(text: str) -> str:
    """Escape what a terminal would obey: an agent can put ESC or a change of direction into an argument."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def colour(code: int) -> Callable[[str], str]:
    plain = bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
    return str if plain else lambda text: f"\x1b[{code}m{text}\x1b[0m"


bold, dim, red, green = colour(1), colour(2), colour(31), colour(32)


def say(text: str, paint: Callable[[str], str] = str) -> None:
    print(paint(textwrap.fill(visible(text), 79, initial_indent="   ", subsequent_indent="     ")))


def open_controller(store: Path) -> ApprovalController:
    if sys.stdin.isatty() and sys.stdout.isatty():
        print("An agent wants to work in a folder. You have the say.")
        return ApprovalController(approval_callback=ask, policy=POLICY, store=store)
    print("There is no terminal, so nobody can be asked: what would be asked is denied.")
    return ApprovalController(mode="auto_deny", policy=POLICY, store=store)


def main() -> None:
    """Tell the story in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sayso-demo-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        controller = open_controller(Path(folder, "sayso.db"))
        with contextlib.chdir(work):
            write_file("orders.csv", "ann,40\nbob,50\ncem,30")
            try:
                run_agent({name: guard(tool, controller) for name, tool in TOOLS.items()})
            except KeyboardInterrupt:
                print("\n   Ctrl-C is a no: the agent stops here.")
            asyncio.run(report(controller))
            show_files()


if __name__ == "__main__":
    main()
