"""Schema of the policy file, with all accepted spellings: validates it, and gives editors its JSON Schema."""

from __future__ import annotations

from typing import Any

from sayso.core.conversation import MOST_CHARACTERS, MOST_MESSAGES
from sayso.policy.conditions import OPERATORS
from sayso.policy.data_schema import (
    Shape,
    any_of,
    boolean,
    duration,
    integer,
    list_of,
    mapping_of,
    null,
    one_of,
    record,
    scalar,
    text,
)
from sayso.policy.vocabulary import APPROVALS

APPROVAL = one_of("none: runs; required: asks; blocked: never runs; once_per_session: asks once", tuple(APPROVALS))
_EXPIRES = duration("unanswered for this long, a question expires; it is never approved")
_WHEN = mapping_of(
    "conditions on arguments, such as {args.amount: {gt: 100}}; all must hold for the entry to speak",
    any_of(
        scalar("the value that the argument must have"),
        record(
            "comparisons",
            {name: any_of(scalar("a value"), list_of("values", scalar("a value"))) for name in OPERATORS},
        ),
    ),
)
TOOL = any_of(
    APPROVAL,
    record(
        "what happens to calls of this tool",
        {
            "approval": APPROVAL,
            "pre_approved": boolean("true means none, false means required"),
            "preApproved": boolean("as pre_approved"),
            "blocked": boolean("true blocks the tool"),
            "block_reason": text("why it is blocked"),
            "blockReason": text("as block_reason"),
            "needs_approval": boolean("true means required, false means none"),
            "needsApproval": boolean("as needs_approval"),
            "reason": text("why this rule is as it is"),
            "description": text("what people are shown; may hold arguments, as in 'Pay {args.amount}'"),
            "when": _WHEN,
            "expires": _EXPIRES,
            "approvers": record(
                "who has to say yes",
                {
                    "count": integer("how many different people", least=1, most=100),
                    "role": text("the role that they must have"),
                    "remind": duration("unanswered for this long, people are told of it once more"),
                    "escalate": record(
                        "who else may answer, if nobody has",
                        {"role": text("their role"), "after": duration("unanswered for this long")},
                    ),
                },
            ),
            "remember": boolean("false: no answer is remembered"),
            "scope": one_of("the broadest that an answer may be remembered for", ("call", "tool")),
            "kind": one_of("shell: judged by the shell rules; path: judged by the zones", ("shell", "path")),
            "argument": any_of(
                text("the argument that holds the command or the path"), list_of("arguments", text("one with a path"))
            ),
            "operation": one_of("what a tool of the kind path does", ("read", "write", "delete", "list")),
            "paths": one_of("virtual: /zone/file; real: paths of this machine", ("virtual", "real")),
        },
    ),
    null("the default, and the tool's own mark"),
)
_APPROVED = any_of(APPROVAL, boolean("true: asks; false: runs"))
_ZONE_FIELDS: dict[str, Shape] = {
    "root": text("the folder; a relative one is relative to the file"),
    "mode": one_of("ro: can only be read; rw: can be written", ("ro", "rw")),
    "approval": any_of(APPROVAL, record("per operation", {"read": APPROVAL, "write": APPROVAL, "delete": APPROVAL})),
    "read_approval": _APPROVED,
    "write_approval": _APPROVED,
    "delete_approval": _APPROVED,
    "trash": boolean("false: what is deleted is gone; else it can be had back from .sayso-trash"),
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
        "allowed": boolean("false means blocked"),
        "approval_required": boolean("true means required, false means none"),
        "note": text("why this rule is as it is"),
        "expires": _EXPIRES,
        "match": list_of("lines that this rule must match, tested when the file is read", text("a line")),
        "not_match": list_of("lines that this rule must not match", text("a line")),
        "options": any_of(
            one_of("any: whatever the options of the command do", ("any",)),
            list_of(
                "options that may stand behind the words, though they are not known to be harmless", text("an option")
            ),
        ),
        "operand_expansion": list_of("expansions that operands may have", one_of("an expansion", ("glob", "tilde"))),
    },
    required=("pattern",),
)
_SHELL_RULES = list_of("rules for commands; of all that match the strictest decides", _SHELL_RULE)
_SHELL_WORD = one_of("for commands that no rule names", ("required", "blocked", "ask", "deny"))
_FLAGS_DEFAULT = record(
    "for commands that no rule names, as two flags",
    {"allowed": boolean("false means blocked"), "approval_required": boolean("true means required")},
)
FIELDS: dict[str, Shape] = {
    "version": integer("the form of this file", least=1, most=1),
    "default": APPROVAL,
    "tools": mapping_of("per tool name, or glob such as 'github_*'", TOOL),
    "tool_configs": mapping_of("another name for tools", TOOL),
    "pre_approved": list_of("deprecated: tools that run without being asked about", text("a tool's name")),
    "custom_tools": any_of(
        list_of("the tools of a worker's own tools.py that it may use", text("a tool's name")),
        mapping_of("the same, each with what happens to its calls", TOOL),
    ),
    "sandbox": record(
        "folders for file tools",
        {
            "zones": any_of(mapping_of("folders by name", _ZONE), list_of("folders", _LISTED_ZONE)),
            "paths": mapping_of("another name for zones", _ZONE),
        },
    ),
    "shell": record(
        "command lines for bash",
        {
            "default": _SHELL_WORD,
            "rules": _SHELL_RULES,
            "trusted_dirs": list_of("folders whose programs rules name without the folder", text("a folder")),
            "inert_assignments": list_of("variables that may be set for a command", text("a name or glob")),
            "folder": text("where lines run; the folder of this file if left out"),
            "confine": boolean("true: lines see the zones and the system's programs, and nothing else"),
            "network": boolean("true: lines that are confined may use the network"),
            "readable": list_of("further folders that lines that are confined may read", text("a folder")),
        },
    ),
    "shell_default": any_of(_SHELL_WORD, _FLAGS_DEFAULT),
    "shell_rules": _SHELL_RULES,
    "remember": any_of(
        boolean("false: no answer is remembered"),
        record("how long answers may be remembered", {"max": duration("the longest time")}),
    ),
    "conversation": any_of(
        one_of("none: a request shows nothing of what was said before the call", ("none",)),
        record(
            "how much of what was said before the call a request shows",
            {
                "messages": integer("how many messages; 4 if left out", least=1, most=MOST_MESSAGES),
                "characters": integer("their length together; 2000 if left out", least=1, most=MOST_CHARACTERS),
            },
        ),
    ),
    "audit": one_of("strict: an allowed call waits until its entry is durable", ("queued", "strict")),
}
POLICY = record(
    "A policy of sayso: which tool calls run, which are asked about, and which are blocked.",
    FIELDS,
    required=("default",),
)


def policy_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, draft 7, which editors understand."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "sayso policy", **POLICY.schema}
