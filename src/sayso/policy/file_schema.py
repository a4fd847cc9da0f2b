"""What may stand in a policy file, in the words of sayso and of the seeds: for checking it, and for editors."""

from __future__ import annotations

from typing import Any

from sayso.policy.conditions import OPERATORS
from sayso.policy.data_schema import (
    Shape,
    either,
    flag,
    listing,
    nothing,
    record,
    single,
    span,
    table,
    text,
    whole,
    word,
)
from sayso.policy.vocabulary import APPROVALS

APPROVAL = word("none: runs; required: asks; blocked: never runs; once_per_session: asks once", tuple(APPROVALS))
_EXPIRES = span("unanswered for this long, a question expires; it is never approved")
_WHEN = table(
    "conditions on arguments, such as {args.amount: {gt: 100}}; all must hold for the entry to speak",
    either(
        single("the value that the argument must have"),
        record(
            "comparisons",
            {name: either(single("a value"), listing("values", single("a value"))) for name in OPERATORS},
        ),
    ),
)
TOOL = either(
    APPROVAL,
    record(
        "what happens to calls of this tool",
        {
            "approval": APPROVAL,
            "pre_approved": flag("seed 004: true means none, false means required"),
            "preApproved": flag("as pre_approved"),
            "blocked": flag("true blocks the tool"),
            "block_reason": text("why it is blocked"),
            "blockReason": text("as block_reason"),
            "needs_approval": flag("true means required, false means none"),
            "needsApproval": flag("as needs_approval"),
            "reason": text("why this rule is as it is"),
            "description": text("what people are shown; may hold arguments, as in 'Pay {args.amount}'"),
            "when": _WHEN,
            "expires": _EXPIRES,
            "approvers": record(
                "who has to say yes",
                {
                    "count": whole("how many different people", least=1, most=100),
                    "role": text("the role that they must have"),
                    "remind": span("unanswered for this long, people are told of it once more"),
                    "escalate": record(
                        "who else may answer, if nobody has",
                        {"role": text("their role"), "after": span("unanswered for this long")},
                    ),
                },
            ),
            "remember": flag("false: no answer is remembered"),
            "scope": word("the broadest that an answer may be remembered for", ("call", "tool")),
            "kind": word("shell: judged by the shell rules; path: judged by the zones", ("shell", "path")),
            "argument": either(
                text("the argument that holds the command or the path"), listing("arguments", text("one with a path"))
            ),
            "operation": word("what a tool of the kind path does", ("read", "write", "delete", "list")),
            "paths": word("virtual: /zone/file; real: paths of this machine", ("virtual", "real")),
        },
    ),
    nothing("the default, and the tool's own mark"),
)
_APPROVED = either(APPROVAL, flag("true: asks; false: runs"))
_ZONE_FIELDS: dict[str, Shape] = {
    "root": text("the folder; a relative one is relative to the file"),
    "mode": word("ro: can only be read; rw: can be written", ("ro", "rw")),
    "approval": either(APPROVAL, record("per operation", {"read": APPROVAL, "write": APPROVAL, "delete": APPROVAL})),
    "read_approval": _APPROVED,
    "write_approval": _APPROVED,
    "delete_approval": _APPROVED,
    "trash": flag("false: what is deleted is gone; else it can be had back from .sayso-trash"),
}
_ZONE = record("a folder, what can be done in it, and what has to be asked about", _ZONE_FIELDS)
_LISTED_ZONE = record(
    "a zone in a list", {"name": text("its name: paths begin with /name/"), **_ZONE_FIELDS}, required=("name",)
)
_SHELL_RULE = record(
    "what happens to commands that begin with these words",
    {
        "pattern": text("words that a command begins with, such as 'git status'"),
        "approval": APPROVAL,
        "allowed": flag("seed 001: false means blocked"),
        "approval_required": flag("seed 001: true means required, false means none"),
        "note": text("why this rule is as it is"),
        "expires": _EXPIRES,
        "match": listing("lines that this rule must match, tested when the file is read", text("a line")),
        "not_match": listing("lines that this rule must not match", text("a line")),
        "operand_expansion": listing("expansions that operands may have", word("an expansion", ("glob", "tilde"))),
    },
    required=("pattern",),
)
_SHELL_RULES = listing("rules for commands; of all that match the strictest decides", _SHELL_RULE)
_SHELL_WORD = word("for commands that no rule names", ("required", "blocked", "ask", "deny"))
_SEED_DEFAULT = record(
    "seed 001's form", {"allowed": flag("false means blocked"), "approval_required": flag("true means required")}
)
FIELDS: dict[str, Shape] = {
    "version": whole("the form of this file", least=1, most=1),
    "default": APPROVAL,
    "tools": table("per tool name, or glob such as 'github_*'", TOOL),
    "tool_configs": table("seed 003's name for tools", TOOL),
    "pre_approved": listing("deprecated: tools that run without being asked about", text("a tool's name")),
    "custom_tools": either(
        listing("the tools of a worker's own tools.py that it may use", text("a tool's name")),
        table("the same, each with what happens to its calls", TOOL),
    ),
    "sandbox": record(
        "folders for file tools",
        {
            "zones": either(table("folders by name", _ZONE), listing("folders", _LISTED_ZONE)),
            "paths": table("seed 001's name for zones", _ZONE),
        },
    ),
    "shell": record(
        "command lines for bash",
        {
            "default": _SHELL_WORD,
            "rules": _SHELL_RULES,
            "trusted_dirs": listing("folders whose programs rules name without the folder", text("a folder")),
            "inert_assignments": listing("variables that may be set for a command", text("a name or glob")),
            "folder": text("where lines run; the folder of this file if left out"),
            "confine": flag("true: lines see the zones and the system's programs, and nothing else"),
            "network": flag("true: lines that are confined may use the network"),
            "readable": listing("further folders that lines that are confined may read", text("a folder")),
        },
    ),
    "shell_default": either(_SHELL_WORD, _SEED_DEFAULT),
    "shell_rules": _SHELL_RULES,
    "remember": either(
        flag("false: no answer is remembered"),
        record("how long answers may be remembered", {"max": span("the longest time")}),
    ),
    "audit": word("strict: an allowed call waits until its entry is durable", ("queued", "strict")),
}
POLICY = record(
    "A policy of sayso: which tool calls run, which are asked about, and which are blocked.",
    FIELDS,
    required=("default",),
)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, draft 7, which editors understand."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "sayso policy", **POLICY.schema}
