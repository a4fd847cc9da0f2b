"""Answer keys: the one table of single-key answers, for the terminal, the full screen, the web page and the docs.

Tests: tests/browser/test_reach.py
"""

from __future__ import annotations

from typing import NamedTuple


class AnswerKey(NamedTuple):
    """A key, the action that it stands for everywhere, its label, and what it does."""

    key: str
    action: str
    label: str
    meaning: str


# Only `y` runs a call. A key that opens a choice or shows something must not run one at another front end, for people
# use several; `n` denies at once everywhere, which is safe to press by mistake.
ANSWER_KEYS = (
    AnswerKey("y", "allow", "allow once", "this call, once, with exactly these arguments"),
    AnswerKey("a", "lasting", "allow for…", "opens a choice: for which later calls, too, how long and how often"),
    AnswerKey("e", "edit", "edit", "other arguments, which are checked and shown again before a yes"),
    AnswerKey("n", "deny", "deny", "the call does not run"),
    AnswerKey("m", "note", "deny, with a note", "asks for a note, which the agent gets"),
    AnswerKey("v", "view", "view all", "shows the parts that you have not seen"),
    AnswerKey("c", "conversation", "messages before", "shows what was said before the call, in the agent's words"),
)

# The key that filters a list, at the full screen and on the page; it only looks, so it must never be an answer key.
FILTER_KEY = AnswerKey("/", "filter", "filter", "lists only what matches: words, tool:name, agent:name")
