"""Policies with a stricter rule inside a looser one, other spellings of the stricter one, and everyday lines beside it.

Written from the manuals of the programs and from what agents type, not from the matcher.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """A policy and lines under it."""

    looser: tuple[str, ...]
    stricter: tuple[str, ...]
    spelled: dict[str, tuple[str, ...]]  # by class of spelling: lines that do what a stricter rule is about
    everyday: tuple[str, ...]  # lines that no stricter rule is about


# fmt: off
CASES: dict[str, Case] = {
    "coreutils": Case(
        ("rm", "chmod", "chown", "cp", "mv", "tar", "ls", "grep", "sudo", "xargs"),
        ("rm -rf", "chmod -R", "chown --recursive", "tar -x", "sudo rm", "cp --remove-destination"),
        {
            "order": (
                "rm x -rf", "rm build -r dist -f", "rm -v x -fr", "chmod 777 -R .", "chmod u+x a -R",
                "chown me . -R", "tar -f a.tar -x", "rm -- x -rf",
            ),
            "bundle": (
                "rm -fr x", "rm -r -f x", "rm -f -r x", "rm -rfv x", "rm -Rf x", "rm -vRf x", "rm -f -v -R x",
                "rm -dfr x", "chmod -vR 777 .", "tar -zxf a.tgz", "tar -vxf a.tar", "tar xf a.tar", "tar zxvf a.tgz",
                "tar -C / -zxf a.tgz",
            ),
            "long": (
                "rm --recursive --force x", "rm --force -r x", "rm -f --recursive x", "chmod --recursive 777 .",
                "chown -R me .", "tar --extract -f a.tar", "tar --get -f a.tar", "rm x --force --recursive",
            ),
            "abbreviation": (
                "rm --r --f x", "rm --rec --forc x", "rm --recurs -f x", "chmod --recu 777 .", "chown --recur me .",
                "tar --extr -f a.tar", "tar --extra -f a.tar", "cp --remove-dest a b", "cp --rem a b",
                "rm -r --fo x",
            ),
            "wrapper": (
                "sudo -u root rm x", "sudo --user root rm x", "sudo -n rm x", "sudo A=1 rm x", "sudo -u me A=1 rm x",
                "ls | xargs rm -fr", "nice rm x -rf", "bash -c 'rm x -rf'", "env A=1 rm -r x -f", "/bin/rm -fr x",
                "'rm' -f -r x", "r\\m x -rf", "ls && rm -fr x", "timeout 5 rm --r --f x", "ls | xargs -n 1 rm -r -f",
            ),
        },
        (
            "rm x", "rm -f x", "rm -r x", "rm -v x y", "rm rf", "rm --force x", "rm --recursive x", "rm -i x",
            "ls -rf", "chmod 755 x", "chmod +x run.sh", "chmod -r x", "chmod -v u+w x", "chmod --reference=a b",
            "cp -r a b", "cp -R a b", "cp --recursive a b", "mv -f a b", "tar -tf x.tar", "tar --list -f a.tar",
            "tar tf a.tar", "tar -czf a.tgz src", "tar czf a.tgz src", "grep -rf words .", "grep -rn 'rm -rf' src",
            "ls -R", "ls rm", "grep rm x", "sudo ls rm", "sudo -n ls -la", "ls | xargs grep rm", "grep -- -rf x",
            "ls 'rm -rf x'", "rm -d empty", "rm 'a -rf b'", "chown me x", "chown -v me x", "ls -l --recursive",
            "rm --verbose -f x",
        ),
    ),
    "find": Case(
        ("find", "gcc", "openssl", "java", "ffmpeg", "go"),
        ("find -delete", "find -exec", "gcc -o", "openssl -out", "java -javaagent", "ffmpeg -y", "go test -exec"),
        {
            "order": (
                "find . -name x -delete", "find -L . -type f -delete", "find . -type f -exec ls {} +",
                "gcc x.c -o x", "openssl x509 -in a -out b", "ffmpeg -i a b.mp4 -y", "go test ./... -exec sudo",
                "find . -depth -delete -print",
            ),
            "one dash or two": (
                "go test --exec sudo", "go test -exec=sudo", "go test --exec=sudo ./...", "openssl x509 --out b",
                "go -C sub test -exec x", "go test -v -exec x",
            ),
            "value": (
                "gcc -ox x.c", "gcc x.c -ofile", "java -javaagent:x.jar Main", "java -Xmx1g -javaagent:x=y Main",
            ),
        },
        (
            "find . -maxdepth 1 -type f -ls", "find . -depth -type d -empty", "find . -ls -type f",
            "find . -name exec", "find . -name -delete.txt", "find . -name '*.py' -newer x -print0",
            "find delete -type f", "find . -executable", "find . -type d -name node_modules -prune",
            "find . -regextype posix-egrep -regex '.*x'", "gcc -O2 -c x.c", "gcc -Wall -fopenmp x.c",
            "gcc -std=c11 -pedantic x.c", "openssl version", "openssl x509 -noout -in a", "java -jar x.jar",
            "java -version", "ffmpeg -i a.mp4 -f null -", "go test ./...", "go test -run X -count=1", "go vet ./...",
            "go test -v -race exec", "find . -mtime -1 -size +1k", "go test -short", "java -cp a Main",
        ),
    ),
    "git": Case(
        (
            "git commit", "git push", "git reset", "git status", "git log", "git branch", "git clean",
            "git checkout", "git diff", "git show", "git add", "git stash", "git tag", "git grep", "git fetch",
            "git blame", "git -C", "git --no-pager",
        ),
        (
            "git commit --amend", "git commit --no-verify", "git push --force", "git push --delete",
            "git reset --hard", "git branch -D", "git clean -fdx", "git checkout -f", "git rebase", "git stash drop",
            "git tag -d",
        ),
        {
            "order": (
                "git commit -m x --amend", "git commit -a --amend -m x", "git push origin main --force",
                "git push -u origin main --force", "git reset HEAD~1 --hard", "git reset -q --hard",
                "git branch x -D", "git clean -x -d -f", "git checkout main -f", "git commit -m 'a b' --no-verify",
                "git tag v1 -d",
            ),
            "bundle": (
                "git push -fu origin main", "git push -uf origin main", "git clean -xdf", "git clean -dfx",
                "git clean -f -d -x", "git clean -qxfd", "git commit -an -m x", "git commit -nam x", "git push -vf",
                "git checkout -qf main", "git branch -vD x",
            ),
            "long and short": (
                "git push -f", "git commit -n -m x", "git push -d origin x", "git push origin -d x",
                "git branch --delete --force x", "git branch -d -f x", "git branch -df x", "git branch -d --force x",
                "git clean --force -dx", "git checkout --force main", "git tag --delete v1",
            ),
            "abbreviation": (
                "git reset --h", "git reset --ha HEAD~1", "git reset --har", "git commit --am",
                "git commit --a -m x", "git commit --no-ver -m x", "git commit --no-v -m x", "git push --forc",
                "git push --del origin x", "git branch --del --forc x", "git commit --ame --no-edit",
                "git push --for origin main",
            ),
            "leading options": (
                "git -C x push --force", "git -c a.b=c reset --hard", "git --git-dir x reset --hard",
                "git --no-pager reset --hard", "git -C . -c a=b commit --amend",
                "git --git-dir=x --work-tree y push -f", "git -p commit --amend", "git --namespace x push -f",
                "git --literal-pathspecs reset --hard", "git -C x rebase main", "git --unknown rebase main",
                "git --unknown x rebase main", "git -C a -C b rebase", "git --bare push --delete origin x",
                "git -C x stash drop", "git stash -q drop", "git --no-pager rebase",
            ),
            "refspec": (
                "git push origin +main", "git push origin +a:b", "git push origin :x", "git push -q origin :x y",
            ),
            "other name": ("/usr/lib/git-core/git-push --force", "git-reset --hard", "git-rebase main"),
        },
        (
            "git log reset", "git log --grep=reset --oneline", "git commit -m 'rm -rf'", "git commit -m reset",
            "git commit -m 'reset --hard' --allow-empty", "git commit -m rebase", "git --no-pager log rebase",
            "git --no-pager diff --stat", "git -C rebase status", "git -C x log rebase", "git -c a=b log -- rebase",
            "git push", "git push origin main", "git push -u origin main", "git push --force-with-lease",
            "git push -n", "git push --no-force", "git push --dry-run", "git push origin main:main",
            "git push --tags", "git reset HEAD x", "git reset --soft HEAD~1", "git reset --mixed", "git reset -q x",
            "git branch -d x", "git branch --delete x", "git branch -a", "git branch --force x main",
            "git clean -nd", "git clean -n -x", "git clean -f", "git checkout -b fix", "git checkout main",
            "git checkout -- x", "git commit -am x", "git commit -amnew", "git commit --no-edit -m x",
            "git commit --verify -m x", "git commit --allow-empty -m x", "git log -n 5",
            "git log -p --all -- rebase.txt", "git diff --no-index a b", "git show HEAD:rebase", "git stash list",
            "git stash", "git stash show drop", "git grep rebase", "git grep -n 'push --force' docs", "git fetch -f",
            "git tag v1", "git tag -a v1 -m d", "git blame -L 1,5 reset", "git add -A", "git log --author=amend",
            "git --no-pager -c color.ui=never log rebase", "git status -sb", "git log --format=%H rebase..main",
            "git diff rebase", "git commit -F drop", "git branch drop", "git tag -l drop", "git stash push -m drop",
        ),
    ),
    "build": Case(
        ("make", "mvn", "gradle", "just"),
        ("make install", "mvn deploy", "gradle publish", "make -f", "just deploy"),
        {
            "order": (
                "make test install", "make -j 4 install", "make -j4 CC=x install", "make test -s install",
                "mvn clean deploy", "mvn -q clean test deploy", "gradle build publish", "gradle -q publish",
                "make -C sub install", "gmake install", "just build deploy", "make --jobs 4 test install",
                "mvn -f pom.xml deploy", "make DESTDIR=/x install",
            ),
            "long and short": (
                "make --file x", "make --file=x test", "make -sf x", "make -fx", "make test -f x", "make --fil x",
            ),
        },
        (
            "make", "make test", "make -j4 test", "make install-docs", "make DESTDIR=install test", "make -k test",
            "mvn test", "mvn -q verify", "mvn package -DskipTests", "gradle test", "gradle build",
            "gradle publishToMavenLocal", "just test", "make -n test", "mvn deploy:help", "make uninstall",
        ),
    ),
    "web": Case(
        ("curl", "wget", "ssh", "rsync"),
        (
            "curl -X DELETE", "curl --data", "curl -k", "curl --upload-file", "rsync --delete", "curl -XPUT",
            "wget --post-file",
        ),
        {
            "order": (
                "curl https://x -X DELETE", "curl -s https://x -k", "rsync -a a b --delete",
                "curl -sS https://x --data a=b", "wget https://x --post-file f",
            ),
            "value": (
                "curl -XDELETE https://x", "curl -sXDELETE https://x", "curl --request DELETE https://x",
                "curl --request=DELETE https://x", "curl -X PUT https://x", "curl --request PUT https://x",
                "curl --request=PUT https://x", "wget --post-file=f https://x", "curl -da=b https://x",
            ),
            "long and short": (
                "curl -d a=b https://x", "curl --insecure https://x", "curl -sk https://x", "curl -T f https://x",
                "curl -sT f https://x", "curl -fsSkL https://x", "curl -skT f https://x",
            ),
            "abbreviation": (
                "curl --insec https://x", "curl --upload f https://x", "rsync --dele a b", "wget --post-f=f x",
            ),
        },
        (
            "curl https://x", "curl -s https://x/DELETE", "curl -fsSL https://x", "curl -X GET https://x",
            "curl -I https://x", "curl -o f https://x", "curl --head https://x", "curl -H 'X-A: DELETE' https://x",
            "wget https://x", "rsync -a a b", "rsync -avz --exclude x a b", "curl --request GET https://x",
            "ssh host ls", "wget -q https://x", "wget -O f x", "curl --silent --show-error https://x",
            "curl -L --max-time 5 https://x", "curl -X POST https://x",
        ),
    ),
    "system": Case(
        ("systemctl", "apt-get", "apt", "brew", "journalctl", "crontab", "su", "ip"),
        (
            "systemctl stop", "systemctl --force reboot", "apt-get remove", "brew uninstall", "crontab -r",
            "su root", "journalctl --vacuum-time", "ip link set", "apt-get install --yes",
        ),
        {
            "leading options": (
                "systemctl --user stop x", "systemctl -H host stop x", "systemctl --no-pager stop x",
                "apt-get -y remove x", "apt-get -o a=b remove x", "apt-get -qq -y remove x", "brew -v uninstall x",
                "su - root", "su -l root", "ip -br link set x up", "ip -n ns link set x up",
                "ip -s -d link set x down",
            ),
            "order": (
                "systemctl reboot --force", "systemctl -q reboot --force", "apt-get install x --yes",
                "crontab -u me -r",
            ),
            "long and short": (
                "systemctl reboot -f", "apt-get install x -y", "apt-get -y install x",
                "apt-get install --assume-yes x", "systemctl -qf reboot",
            ),
            "abbreviation": ("systemctl --forc reboot", "journalctl --vacuum-t=1d", "systemctl reboot --fo"),
            "other name": ("brew rm x", "brew remove x", "ip l set x up", "ip li se x up"),
        },
        (
            "systemctl status stop", "systemctl --user status x", "systemctl --no-pager list-units stop",
            "systemctl reboot", "systemctl is-active x", "apt-get update", "apt-get install x --no-remove",
            "apt-get -s upgrade remove", "apt-get install x", "apt list --installed", "brew list",
            "brew -v info uninstall", "crontab -l", "su me", "journalctl -u stop", "journalctl -n 50 --no-pager",
            "ip link show", "ip a", "ip addr show", "ip route", "journalctl --since today", "brew install x",
            "systemctl cat stop", "systemctl show x -p A",
        ),
    ),
    "words": Case(
        ("deploy", "svn", "hg", "tmux", "vault", "psql", "pwsh"),
        (
            "deploy prod", "deploy --yes-really", "svn delete", "hg commit", "deploy now -rf /", "psql -c",
            "deploy -destroy", "pwsh -EncodedCommand", "tmux kill-server",
        ),
        {
            "leading options": (
                "deploy -e x prod", "deploy -q prod", "deploy --env x --region y prod", "deploy - prod",
            ),
            "order": ("deploy x --yes-really", "deploy now / -rf", "deploy now -r x -f /", "psql -d x -c 'select 1'"),
            "abbreviation": ("deploy x --yes", "deploy --y", "pwsh -enc x", "pwsh -e x", "pwsh -ENCODED x"),
            "one dash or two": (
                "deploy --destroy", "deploy x --destroy=true", "deploy -destroy=true", "deploy -yes-really",
            ),
            "other name": ("svn rm x", "svn --quiet del x", "hg ci", "svn -q remove x"),
            "short name": ("hg com -m x", "hg -q comm", "tmux kill-ser", "tmux -L s kill-serv"),
        },
        (
            "deploy staging", "deploy staging prod", "deploy --env prod-like staging", "deploy --no-yes-really",
            "deploy now x", "deploy -dry -es -troy", "deploy -v -d -e", "svn status", "svn update delete",
            "svn log -l 5", "hg co x", "hg log", "hg status", "hg update commit", "psql -l", "vault status",
            "vault read delete", "tmux ls", "tmux list-keys", "deploy now -r x", "psql -d c",
            "psql -U postgres -h db",
        ),
    ),
    "others": Case(
        (
            "kill", "dd", "psql", "iptables", "ssh", "perl", "node", "pytest", "uv", "ansible-playbook", "zip", "rg",
            "docker", "kubectl", "npm", "sed", "git", "bash",
        ),
        (
            "kill -9", "dd of=/dev/sda", "psql -h prod", "iptables -F", "ssh prod", "perl -i", "node -e",
            "pytest -p", "uv pip install", "uv publish", "ansible-playbook -i prod", "zip -m", "rg --pre",
            "docker run -v", "docker exec -u", "docker volume rm", "kubectl delete namespace",
            "kubectl delete deployment", "npm config set", "npm run deploy", "sed -i", "git checkout --",
            "git checkout .", "git push origin main", "git config --global", "git remote add", "git add --all",
            "bash -c",
        ),
        {
            "order": (
                "kill 1 -9", "dd if=/dev/zero of=/dev/sda bs=1M", "iptables -t nat -F", "ssh -p 22 prod",
                "ssh -i key -l me prod ls", "rg x --pre=cat", "git config a b --global", "git checkout HEAD -- x",
                "git checkout -f .", "git push -u origin main", "git push origin -q main", "git remote -v add x y",
            ),
            "bundle": (
                "perl -pi -e s/a/b/ f", "node -pe 1", "zip -rm a b", "sed -ni p f", "pytest -x -pfoo", "bash -ec ls",
            ),
            "long and short": (
                "psql --host=prod", "psql --host prod", "psql -hprod", "iptables --flush", "node --eval 1",
                "ansible-playbook --inventory=prod x.yml", "ansible-playbook -iprod x.yml",
                "sed --in-place=x s/a/b/ f", "git add -A", "docker run -itv /:/h x",
                "docker exec --user root web ls", "docker run --volume a:b x",
            ),
            "abbreviation": ("sed --in s/a/b/ f", "git config --glob a b", "git add --al"),
            "between": (
                "uv pip -q install x", "uv --offline pip install x", "npm run -w pkg deploy", "npm run -s deploy",
            ),
            "other name": (
                "kubectl delete ns x", "kubectl delete namespaces x", "kubectl delete deploy/x",
                "kubectl delete deploy x", "kubectl delete po,deploy x", "kubectl -n a delete ns/x",
                "docker volume remove x", "npm set a b", "npm c set a b", "npm run-script deploy", "nodejs -e 1",
                "kubectl delete Namespace x",
            ),
        },
        (
            "kill -15 1", "kill -19 1", "kill 9", "dd if=a of=b", "psql -l", "psql -h dev", "iptables -L -n",
            "ssh dev ls prod", "perl -ne print f", "pytest -x -k prod", "pytest tests/a.py::test_p",
            "uv run publish", "uv -q run publish", "uv --directory d run publish", "ansible-playbook -i dev x.yml",
            "zip -r a b", "rg --pre-glob x y", "rg --pretty x", "docker run --rm img pytest -v",
            "docker run --name x img pytest -v", "docker exec web ls -u", "docker volume ls",
            "docker exec -it web sort -u f", "kubectl delete pod x", "kubectl get ns", "npm config get a",
            "npm run build deploy", "sed -n 1,5p f", "sed -es/i/j/ f", "git checkout main", "git push origin dev",
            "git config a b", "git remote -v", "git add .", "git add -u", "kubectl get deploy/x", "ssh -v dev",
            "uv pip list",
        ),
    ),
    "operands": Case(
        ("cat", "head", "rm", "cp", "pg_dump", "psql", "sqlite3", "ls", "echo"),
        (
            "cat .env", "head .env", "rm -rf src", "rm src", "pg_dump prod", "psql prod", "sqlite3 ./prod.db",
            "cp secrets/key", "rm -rf /", "rm -rf .",
        ),
        {
            "path": (
                "cat ./.env", "cat .//.env", "cat src/../.env", "cat a/.././.env", "rm -rf ./src", "rm -rf src/",
                "rm -rf a/../src", "rm -r ./src/", "sqlite3 prod.db .tables", "sqlite3 data/../prod.db .tables",
                "cp ./secrets/key x", "cp secrets//key x", "rm -rf //", "rm -rf /.", "rm -rf /tmp/..", "rm -r -f ./",
            ),
            "order": (
                "cat README.md .env", "cat -n a ./.env", "head -n 5 .env", "rm -rf build src", "rm build src",
                "cat -- .env", "cp x y secrets/key", "sqlite3 -readonly prod.db .tables",
            ),
            "value": (
                "pg_dump -d prod", "pg_dump --dbname=prod", "pg_dump -dprod", "pg_dump -s --dbname prod",
                "psql -d prod -c '\\dt'", "psql -dprod -l", "psql --dbname=prod -l",
            ),
        },
        (
            "cat .envrc", "cat env", "cat src/.env.example", "cat sub/.env", "rm -rf srcs", "rm -rf src/build",
            "rm -rf ./build", "pg_dump dev", "pg_dump -d production", "psql -d dev -l", "sqlite3 test.db .tables",
            "ls src", "ls -la ./src", "echo .env", "head -n 5 src/app.py", "cp secrets/key.pub x", "cp key x",
        ),
    ),
    "abbreviated parts": Case(
        ("php artisan", "bin/console", "redis-cli", "gcloud"),
        (
            "php artisan migrate:fresh", "php artisan tinker", "bin/console doctrine:schema:drop", "redis-cli flushall",
            "gcloud compute instances delete",
        ),
        {
            "short name": (
                "php artisan migrate:f", "php artisan mig:fresh", "php artisan mi:fr --force", "php artisan tink",
                "bin/console d:s:drop", "bin/console doc:schema:dr --force",
            ),
            "case": ("redis-cli FLUSHALL", "redis-cli -n 1 FlushAll", "redis-cli -h localhost flushALL async"),
            "stage": ("gcloud beta compute instances delete x", "gcloud alpha compute instances -q delete x"),
        },
        (
            "php artisan migrate", "php artisan make:factory x", "php artisan test", "php artisan m", "php artisan",
            "bin/console d:s", "bin/console doctrine:schema:validate", "redis-cli get flush", "redis-cli info",
            "gcloud beta compute instances list", "gcloud compute instances list",
        ),
    ),
}
