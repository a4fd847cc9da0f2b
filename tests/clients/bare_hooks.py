"""What a hook can do wrong, as shell scripts that stand in for one: the rows of the matrix."""

from __future__ import annotations

READ = "cat > /dev/null; "
SAY = READ + "printf '%s' "

BROKEN = {
    "exits with 1": READ + "exit 1",
    "exits with 2 and says nothing": READ + "exit 2",
    "is killed": READ + "kill -9 $$",
    "does not exist": "exec /nowhere/sayso",
    "says nothing": READ + "exit 0",
    "says no JSON": SAY + "'refused'",
    "says half a decision": SAY + """'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permission'""",
    "hangs": READ + "exec sleep 60",
}
