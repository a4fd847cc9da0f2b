"""A stricter rule about an operand is found in any order, as another path, refspec or value; other operands are not."""

import pytest

from sayso import Policy, ToolCall

CASES = [
    ("git push", "git push origin main", """
        git push origin HEAD:main | git push origin +main | git push origin refs/heads/main | git push origin dev main
        git push origin dev:refs/heads/main | git push -u origin main:main | git push --repo=origin main
        git push --all origin | git push origin heads/main | git push origin dev:heads/main
    """, """
        git push origin dev | git push origin feature/main | git push origin main-2
        git push -u origin HEAD:dev | git push
    """),
    ("git checkout", "git checkout .", "git checkout HEAD . | git checkout HEAD -- . | git checkout -q ./", """
        git checkout main | git checkout a.txt | git checkout -q dev
    """),
    ("git add", "git add .", "git add -v . | git add a . | git add ./ | git stage .", "git add a.py"),
    ("cat", "cat .env", """
        cat ./.env | cat x .env | cat sub/../.env | cat -n .env | cat /work/.env | cat < .env | cat <./.env
    """, """
        cat .env.example | cat src/env | cat a b | cat src/a.env | cat sub/.env
    """),
    ("head", "head /etc/passwd", "head -n 5 /etc//passwd | head a /etc/passwd | head ../../etc/passwd", """
        head -n 5 etc/passwd | head passwd | head -3 /etc/hosts
    """),
    ("pip install", "pip install evil", "pip install a evil | pip install -U evil | python -m pip install a evil", """
        pip install evil-twin | pip install requests
    """),
    ("npm install", "npm install evil", "npm i a evil | npm i -D evil", "npm install left-pad"),
    ("rm", "rm build", "rm ./build | rm a build | rm -f ./build/ | rm x/../build", "rm build.log | rm src/build"),
    ("systemctl", "systemctl restart nginx", "systemctl restart a nginx | systemctl -q restart nginx", """
        systemctl status nginx | systemctl is-active nginx
    """),
    ("kubectl get", "kubectl get secrets", "kubectl get secrets.v1. | kubectl get -o yaml secrets", """
        kubectl get pods -n secrets | kubectl get deploy web
    """),
    ("kubectl", "kubectl --context=prod", "kubectl get pods --context prod | kubectl --context=prod get pods", """
        kubectl --context=dev get pods | kubectl get pods --context dev | kubectl get pods
    """),
    ("kubectl", "kubectl get --namespace=prod", "kubectl get -n prod pods | kubectl get pods -nprod", """
        kubectl get --namespace=dev pods | kubectl get -n dev pods
    """),
    ("docker", "docker stop db", "docker stop -t 5 db | docker container stop web db", "docker logs db | docker ps"),
    ("gh api", "gh api -X DELETE", "gh api -X delete x | gh api --method=Delete x | gh api -Xdelete x", "gh api user"),
    ("ansible-playbook", "ansible-playbook prod.yml", """
        ansible-playbook ./prod.yml | ansible-playbook dev.yml prod.yml
    """, "ansible-playbook dev.yml"),
    ("curl", "curl -d", "curl --data-raw x http://a | curl --json x http://a | curl --data-urlencode x http://a", """
        curl -s https://x.org/data | curl -sSL https://d.org
    """),
    ("curl", "curl -o", "curl -O http://a | curl -sO http://a | curl --remote-name http://a", "curl -s https://x.org/o"),
    ("rsync", "rsync --delete", "rsync -a --delete-after a b | rsync --del a b", "rsync -av a/ b/"),
    ("cp", "cp -r", "cp -a a b | cp --archive a b | cp -pa a b", "cp a b | cp -v a r"),
    ("rm", "rm -rf", "rm --interactive=never -r x | rm -rf x", "rm -f x | rm -d x"),
    ("useradd", "useradd -o", "useradd --non-unique x | useradd -mo x", "useradd x"),
    ("journalctl", "journalctl --follow", "journalctl -f | journalctl -fu x", "journalctl -u x -n 50"),
    ("tail", "tail -f", "tail --follow x | tail --follow=name x | tail -F -f x", "tail -n 5 f"),
    ("npm run", "npm run deploy", "npm run deploy | npm run -s deploy", "npm run test deploy | npm run build"),
    ("python manage.py", "python manage.py migrate", "python manage.py -v 2 migrate", "python manage.py test migrate"),
]  # fmt: skip


def lines(text: str) -> list[str]:
    return [line.strip() for row in text.strip().splitlines() for line in row.split(" | ")]


FOUND = [(loose, rule, line) for loose, rule, found, _ in CASES for line in lines(found)]
OTHERS = [(loose, rule, line) for loose, rule, _, others in CASES for line in lines(others)]


def approval(rules: list[dict[str, str]], line: str) -> str:
    policy = Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": rules}})
    return policy.judge(ToolCall(tool="shell", args={"command": line})).approval


@pytest.mark.parametrize(("loose", "rule", "line"), FOUND)
def test_it_is_found(loose: str, rule: str, line: str) -> None:
    rules = [{"pattern": loose, "approval": "none", "options": "any"}, {"pattern": rule, "approval": "blocked"}]
    assert approval(rules, line) == "blocked"
    rules[1]["approval"] = "required"
    assert approval(rules, line) == "required"


@pytest.mark.parametrize(("loose", "rule", "line"), OTHERS)
def test_others_are_not_taken_for_it(loose: str, rule: str, line: str) -> None:
    alone = [{"pattern": loose, "approval": "none"}]
    assert approval([*alone, {"pattern": rule, "approval": "blocked"}], line) == approval(alone, line)


@pytest.mark.parametrize(
    "line", ["npx -c 'git push -f'", "npx --call='git push -f'", "npm exec -c 'git push -f'", "pipenv run git push -f"]
)
def test_what_a_runner_of_packages_runs_is_looked_through(line: str) -> None:
    runners = [{"pattern": each, "approval": "none", "options": "any"} for each in ("npx", "npm exec", "pipenv run")]
    assert approval([*runners, {"pattern": "git push --force", "approval": "blocked"}], line) == "blocked"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("kubectl -n dev", "kubectl -n dev get pods -A"),
        ("helm -n dev", "helm -n dev list --all-namespaces"),
        ("rm -i", "rm -i -f x"),
        ("rm -i", "rm -i --interactive=never x"),
        ("mv -n", "mv -n -f a b"),
        ("git apply --check", "git apply --check --apply x"),
        ("prettier --check", "prettier --check -w x"),
        ("rsync -n", "rsync -n --no-n a b"),
        ("redis-cli -h localhost", "redis-cli -h localhost -u redis://prod get a"),
    ],
)
def test_an_option_that_takes_back_the_rules_own_asks_even_where_any_may_stand(rule: str, line: str) -> None:
    assert approval([{"pattern": rule, "approval": "none", "options": "any"}], line) == "required"
    assert approval([{"pattern": rule, "approval": "none", "options": "any"}], rule) == "none"
