"""Programs that run what they read from standard input: they ask where the line gives them some."""

import subprocess
from pathlib import Path

import pytest

from sayso import Policy, ToolCall

ALLOWED = (
    "echo", "cat", "psql", "mysql", "sqlite3 app.db", "redis-cli", "mongosh", "duckdb app.db", "docker exec",
    "kubectl exec", "docker compose exec", "docker run -i", "uv run", "npx", "npm exec", "yarn node", "python",
    "python3", "node", "ruby", "php", "perl", "bash", "sh", "ssh host", "irb", "R", "deno", "ts-node", "sudo",
    "timeout", "nice", "jq", "env", "find", "python -m json.tool", "node --check", "php -l", "clickhouse-client",
    "gdb", "poetry run", "bundle exec",
)  # fmt: skip
ASKS = (
    "echo '\\! touch x' | psql", "cat x.sql | psql -d app", "cat x.sql | psql -h localhost -U app app",
    "psql < x.sql", "psql 0< x.sql", "psql app </dev/null < x.sql", "true | psql", "echo x |& psql",
    "echo 'drop table t' | mysql app", "echo .shell | sqlite3 app.db", "sqlite3 app.db < x.sql",
    "sqlite3 app.db -header < x.sql", "echo x | duckdb app.db", "echo flushall | redis-cli",
    "echo flushall | redis-cli -n 1", "echo x | mongosh app", "cat x | clickhouse-client",
    "echo id | docker exec -i web sh", "echo id | docker exec -i web bash -x",
    "echo x | docker exec -i db psql -U app", "echo id | docker run -i app sh", "echo id | kubectl exec -i web -- sh",
    "echo id | docker compose exec -T web sh", "echo id | docker exec -i web nice sh", "docker exec -i web sh < x.sh",
    "echo x | docker exec -i web python", "echo x | uv run python", "echo x | poetry run python -q",
    "echo x | npx tsx", "echo x | npm exec node", "echo x | yarn node", "echo x | python", "echo x | python3 -u",
    "echo x | node", "echo x | node --no-warnings", "echo x | ruby -w", "echo x | php", "echo x | perl",
    "echo x | deno", "echo x | ts-node", "echo x | gdb", "echo x | bundle exec irb", "echo x | irb", "echo x | R",
    "echo id | bash", "echo id | bash -x", "echo id | sh", "echo id | ssh host", "echo id | ssh host sh",
    "echo id | sudo sh", "echo id | sudo -n timeout 5 sh", "echo id | env sh", "echo id | bash -c sh",
    "echo id | bash -c 'echo x; sh'", "bash -c sh < x.sh", "echo a && echo id | sh", "echo id | cat | sh",
    "find . -exec sh ';' < x.sh",
)  # fmt: skip
RUNS = (
    "psql", "psql -d app", "psql < /dev/null", "cat x | psql -c '\\dt'", "psql -l < /dev/null", "echo x; psql",
    "echo x && psql -l", "psql 3< x", "psql -c '\\dt' | cat", "mysql -e 'show tables' app < x",
    "sqlite3 app.db .tables", "cat x | sqlite3 app.db .tables", "sqlite3 app.db .tables | cat",
    "echo x | redis-cli ping", "redis-cli get a", "cat x | mongosh --eval 'db.stats()'", "docker exec web ls -la",
    "echo x | docker exec -i web cat", "docker exec web sh", "docker exec -i web ls < x", "kubectl exec web -- ls",
    "cat x | uv run python x.py", "cat x | npx prettier --check x", "echo x | python x.py",
    "echo x | python3 -m json.tool", "echo x | node x.js", "cat x | node --check", "cat x | php -l",
    "echo x | bash x.sh", "echo x | ssh host ls", "echo x | sudo -n ls", "cat x | jq .", "bash x.sh < x",
    "echo x | bash -c 'cat'", "echo x | bash -n", "python < /dev/null",
)  # fmt: skip
POLICY = Policy.from_dict(
    {
        "version": 1,
        "default": "required",
        "shell": {
            "default": "required",
            "rules": [{"pattern": each, "approval": "none"} for each in (*ALLOWED, "ls", "true")],
        },
    }
)


def judged(line: str) -> tuple[str, str]:
    verdict = POLICY.judge(ToolCall(tool="shell", args={"command": line}))
    return verdict.approval, verdict.reason


def test_a_program_asks_if_the_line_gives_it_commands_to_read() -> None:
    found = {line: judged(line) for line in ASKS}
    assert not {line: each for line, each in found.items() if "runs what it reads from standard input" not in each[1]}
    assert {approval for approval, _ in found.values()} == {"required"}


def test_input_that_is_no_program_runs() -> None:
    assert not {line: judged(line) for line in RUNS if judged(line)[0] != "none"}


def test_the_rule_can_allow_it() -> None:
    rules = [{"pattern": "echo", "approval": "none"}, {"pattern": "psql", "approval": "none", "options": "any"}]
    policy = Policy.from_dict({"version": 1, "default": "required", "shell": {"default": "required", "rules": rules}})
    assert policy.judge(ToolCall(tool="shell", args={"command": "echo 'select 1' | psql"})).approval == "none"


@pytest.mark.parametrize(
    "line", ["echo 'touch pwned' | nice bash", "bash < x.sh", "echo 'touch pwned' | bash -c 'true; sh'"]
)
def test_what_is_read_does_run(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("touch pwned\n")
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False)  # noqa: S607
    assert (tmp_path / "pwned").exists()
    assert judged(line)[0] == "required"
