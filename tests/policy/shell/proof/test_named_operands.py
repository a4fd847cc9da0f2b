"""A rule that names what to change names all of it: `rm build` is not `rm build src`."""

import pytest

from sayso import Policy, Verdict
from sayso.core.model import ToolCall


def judge(rule: str, line: str) -> Verdict:
    shell = {"default": "required", "rules": [{"pattern": rule, "approval": "none", "options": "any"}]}
    return Policy.from_dict({"default": "required", "shell": shell}).judge(
        ToolCall(tool="shell", args={"command": line})
    )


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("rm build", "src"),
        ("rm -rf build", "/"),
        ("mv a b", "c"),
        ("cp a b", "/etc"),
        ("mkdir build", "../other"),
        ("touch a", "/etc/b"),
        ("truncate -s 0 app.log", "app.db"),
        ("chmod +x run.sh", "/etc/cron.daily/x"),
        ("kill 123", "456"),
        ("pkill node", "python"),
        ("systemctl restart nginx", "sshd"),
        ("docker rm web", "db"),
        ("docker volume rm cache", "data"),
        ("docker compose up web", "db"),
        ("kubectl delete pod web", "db"),
        ("kubectl delete pod/web", "pod/db"),
        ("kubectl delete pod web", "-n prod"),
        ("kubectl rollout restart deploy/web", "deploy/db"),
        ("kubectl apply -f web.yaml", "--namespace=prod"),
        ("helm uninstall web", "-n prod"),
        ("pip install requests", "evil"),
        ("pip install -r requirements.txt", "evil"),
        ("pip install -r requirements.txt", "-r evil.txt"),
        ("pip install -e .", "-e ../evil"),
        ("uv pip install -r requirements.txt", "evil"),
        ("npm install react", "evil"),
        ("cargo add serde", "evil"),
        ("brew install jq", "evil"),
        ("git push origin feature", "main"),
        ("git push origin feature", "--tags"),
        ("git add src", "."),
        ("rsync -a a b", "c"),
        ("psql -c 'select 1'", "production"),
        ("mysql -e 'select 1'", "production"),
        ("black src", "/other"),
        ("invoke test", "deploy"),
        ("frob delete a", "b"),
        ("frob cluster rm a", "b"),
        ("supervisorctl restart web", "db"),
        ("gcloud compute instances delete web", "db"),
        ("fly apps destroy web", "db"),
        ("terraform state rm a.b", "c.d"),
        ("kubectl drain n1", "n2"),
        ("shred a", "b"),
        ("git checkout main", "src/a.py"),
        ("zip a.zip src", "/etc/shadow"),
        ("ruff check --fix src", "/other"),
        ("npx eslint --fix src", "other"),
        ("gofmt -w a.go", "b.go"),
        ("sort -o out in", "other"),
        ("git branch -D old", "main"),
        ("gulp test", "deploy"),
        ("curl --url http://localhost", "http://evil.example"),
    ],
)
def test_something_else_to_change_asks_even_where_any_option_may_stand(rule: str, more: str) -> None:
    assert judge(rule, rule).approval == "none"
    verdict = judge(rule, f"{rule} {more}")
    assert verdict.approval == "required"
    assert "what the rule" in verdict.reason
    assert "would allow it" in verdict.reason


@pytest.mark.proves("R49")
@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("rm", "rm a b"),
        ("chmod +x", "chmod +x run.sh test.sh"),
        ("kubectl delete pod", "kubectl delete pod web"),
        ("kubectl delete pod", "kubectl delete pod web -n staging"),
        ("kubectl delete pod web", "kubectl delete pod web --wait=false"),
        ("git push origin", "git push origin feature"),
        ("pip install -r", "pip install -r requirements.txt"),
        ("pip install", "pip install requests rich"),
        ("docker restart", "docker restart web db"),
        ("frob delete", "frob delete a b"),
        ("frob deploy staging", "frob deploy staging now"),
        ("docker scout cves", "docker scout cves app"),
        ("cat README.md", "cat README.md LICENSE"),
        ("pytest tests", "pytest tests src"),
        ("python script.py", "python script.py in.txt out.txt"),
        ("npm run test", "npm run test src/a.test.ts"),
        ("cargo run", "cargo run in.txt"),
        ("docker exec web ls", "docker exec web ls src"),
        ("dotnet tool list", "dotnet tool list x"),
    ],
)
def test_what_is_narrower_or_an_argument_or_only_read_runs(rule: str, line: str) -> None:
    assert judge(rule, line).approval == "none"
