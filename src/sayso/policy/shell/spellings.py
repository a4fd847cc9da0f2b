"""Spellings: other names of programs, sub-commands and options, and the way in which programs take options.

Only suspicion rests on these tables: they decide where a stricter rule is looked for, and never what a rule allows.

Tests: tests/policy/shell/test_option_matching.py
"""

from __future__ import annotations

import re

from sayso.policy.shell.wrappers import Argv, name_of, word_set

_PROGRAMS: dict[str, Argv] = {
    "docker-compose": ("docker", "compose"), "gmake": ("make",), "nodejs": ("node",), "mvnw": ("mvn",),
    "gradlew": ("gradle",), "ncat": ("nc",), "netcat": ("nc",), "gsed": ("sed",), "gtar": ("tar",),
    "flyctl": ("fly",),
}  # fmt: skip
_PIP = re.compile(r"pip3(\.[0-9]+)?")

# Programs whose options are words behind one dash (`find -delete`), not bundles of letters.
ONE_DASH = word_set(
    "find gcc g++ cc c++ clang clang++ cpp ld as nvcc swiftc ghc ocamlc ocamlopt java javac javadoc kotlinc scalac "
    "groovy ant keytool jarsigner apksigner go gofmt terraform tofu terragrunt packer vault consul nomad openssl "
    "ffmpeg ffprobe ffplay mplayer sox xmllint xsltproc convert magick identify mogrify montage composite exiftool "
    "latex pdflatex xelatex lualatex tex pdftex dvips xterm xrandr xset xdotool xinput xclip xsel feh xcodebuild "
    "codesign qemu-img qemu-system-x86_64 qemu-system-aarch64 pwsh powershell wish erl"
)
# Those of them whose letters have their value in the same word: `gcc -ofile`.
ATTACHES = word_set("gcc g++ cc c++ clang clang++ cpp ld as java javac")
# Those that take a beginning of the word for it, in any case.
CASELESS = word_set("pwsh powershell")
# Programs that take no beginning of a long option for it: parsers of Go and Rust, and some of their own.
EXACT_OPTIONS = word_set(
    "docker podman kubectl oc helm gh terraform tofu terragrunt packer vault consul nomad go cargo rustup uv rg fd bat "
    "kind minikube kustomize argocd flux istioctl skaffold eksctl nerdctl buildah skopeo deno bun"
)
# Programs of which every operand counts, in any order: `make test install`.
GOALS = word_set("make just task mvn mvnw gradle gradlew ant rake ninja invoke inv grunt gulp doit dd")
# Other names of the kinds of objects that kubectl takes.
KINDS = {
    short: kind
    for kind, names in {
        "pod": "pods po", "deployment": "deployments deploy", "namespace": "namespaces ns", "service": "services svc",
        "configmap": "configmaps cm", "ingress": "ingresses ing", "node": "nodes no", "statefulset": "statefulsets sts",
        "daemonset": "daemonsets ds", "job": "jobs", "cronjob": "cronjobs cj", "secret": "secrets",
        "persistentvolumeclaim": "persistentvolumeclaims pvc", "persistentvolume": "persistentvolumes pv",
        "replicaset": "replicasets rs", "serviceaccount": "serviceaccounts sa",
        "customresourcedefinition": "customresourcedefinitions crd crds",
        "componentstatus": "componentstatuses cs", "endpoint": "endpoints ep", "event": "events ev",
        "limitrange": "limitranges limits", "replicationcontroller": "replicationcontrollers rc",
        "resourcequota": "resourcequotas quota", "horizontalpodautoscaler": "horizontalpodautoscalers hpa",
        "certificatesigningrequest": "certificatesigningrequests csr", "networkpolicy": "networkpolicies netpol",
        "poddisruptionbudget": "poddisruptionbudgets pdb", "priorityclass": "priorityclasses pc",
        "storageclass": "storageclasses sc", "ingressclass": "ingressclasses", "endpointslice": "endpointslices",
        "clusterrole": "clusterroles", "clusterrolebinding": "clusterrolebindings", "role": "roles",
        "rolebinding": "rolebindings", "lease": "leases", "podtemplate": "podtemplates", "apiservice": "apiservices",
        "volumeattachment": "volumeattachments", "csidriver": "csidrivers", "runtimeclass": "runtimeclasses",
        "mutatingwebhookconfiguration": "mutatingwebhookconfigurations",
        "validatingwebhookconfiguration": "validatingwebhookconfigurations",
        "route": "routes", "project": "projects", "buildconfig": "buildconfigs bc", "imagestream": "imagestreams is",
    }.items()
    for short in names.split()
}  # fmt: skip
EITHER_CASE = word_set("rm cp grep egrep fgrep")  # where -r and -R are one option
# Programs that take the beginning of a sub-command for it, unless that is the name of another one.
SHORT_NAMES = word_set("npm hg ip nmcli tmux gem")
# Those that take the beginning of each part of a name with colons: `artisan mig:f`.
SHORT_PARTS = word_set("php artisan console symfony")
CASELESS_NAMES = word_set("redis-cli valkey-cli keydb-cli")
STAGES = {"gcloud": word_set("alpha beta preview")}  # of a program, that stand before any name

_CONTAINER = ("run", "exec", "stop", "kill", "start", "restart", "cp", "create", "commit", "rename", "update")
_DOCKER = "; ".join([
    *(f"{each}, container {each}" for each in _CONTAINER),
    *(f"{each}, image {each}" for each in ("push", "pull", "load", "save", "tag", "import")),
    "ps, container ls, container list, container ps", "images, image ls, image list", "history, image history",
    *(f"{each}, container {each}" for each in ("logs", "attach", "export", "pause", "unpause", "top", "wait")),
    "service rm, service remove", "stack rm, stack remove, stack down", "secret rm, secret remove",
    "info, system info", "events, system events",
    "rm, container rm, container remove", "rmi, image rm, image remove", "volume rm, volume remove",
    "network rm, network remove", "context rm, context remove",
    "build, image build, buildx build, builder build",
])  # fmt: skip
# Sub-commands that are one and the same.
_SAME: dict[str, str] = {
    "docker": _DOCKER,
    "podman": _DOCKER,
    "npm": (
        "install, i, in, ins, inst, insta, instal, isnt, isnta, isntal, isntall, add; uninstall, un, unlink, remove, "
        "rm, r; ci, clean-install, ic, install-clean, isntall-clean; run, run-script, rum, urn; exec, x; test, t, tst; "
        "config, c; update, up, upgrade, udpate; init, create, innit; dist-tag, dist-tags; owner, author; link, ln; "
        "install-test, it; install-ci-test, cit, clean-install-test, sit; rebuild, rb; login, adduser, add-user; "
        "view, info, show, v; search, s, se, find; list, ls, la, ll; version, verison; "
        "config set, c set, set; star; get; help"
    ),
    "pnpm": "install, i; remove, rm, uninstall, un, uni; update, up, upgrade; run, run-script; test, t, tst",
    "yarn": "remove, rm; upgrade, up",
    "bun": "install, i; add, a; remove, rm; run, r",
    "cargo": "build, b; check, c; doc, d; test, t; run, r; remove, rm",
    "helm": "uninstall, un, del, delete; dependency, dep, dependencies; list, ls",
    "brew": "uninstall, rm, remove",
    "conda": "remove, uninstall; update, upgrade",
    "svn": (
        "commit, ci; checkout, co; update, up; delete, del, remove, rm; copy, cp; move, mv, rename, ren; switch, sw; "
        "propset, pset, ps; propdel, pdel, pd"
    ),
    "hg": (
        "commit, ci; update, up, checkout, co; remove, rm; rename, mv, move; copy, cp; status, st; diff, di; log, "
        "history; annotate, blame; summary, sum; identify, id; pull; push; purge, clean"
    ),
    "git": "add, stage",
    "gh": "pr create, pr new; issue create, issue new; release create, release new; repo create, repo new",
    "gem": "install, i",
    "ip": "address, addr, a; link, l; route, r; neighbour, neigh, n; rule; netns; monitor, m",
    "terraform": "destroy, apply -destroy",
    "tofu": "destroy, apply -destroy",
}
SYNONYMS: dict[str, list[list[Argv]]] = {
    program: [[tuple(path.split()) for path in group.split(", ")] for group in text.split("; ")]
    for program, text in _SAME.items()
}
NAMES = {program: {path[0] for group in groups for path in group} for program, groups in SYNONYMS.items()}

# Long forms of short options: `-D=delete+force` stands for both. A rule about one spelling is about the other too.
_LETTERS: dict[str, str] = {
    "": (
        "a=all a=append a=archive A=all b=branch c=command c=config c=create d=delete d=data d=detach d=database "
        "D=delete D=database e=eval e=exec e=execute e=env e=expression f=force f=file f=filename F=form F=force "
        "F=flush g=global h=host H=header H=host i=in-place i=interactive i=inventory i=input k=insecure k=key "
        "l=list m=message n=no-verify n=dry-run n=namespace o=output p=port p=password p=path p=publish q=quiet "
        "r=recursive r=remove R=recursive s=silent t=tag t=target t=tty T=upload-file u=user u=update U=user "
        "U=username U=upgrade v=volume v=verbose w=write x=extract x=exec X=request X=method y=yes y=assume-yes"
    ),
    "git": "a= d= e= h= i= l= n= o= p= r= t= v= x=",
    "rm": "d=dir i=interactive v=verbose f=force r=recursive R=recursive",
    "git push": "f=force d=delete n=dry-run u=set-upstream v=verbose q=quiet",
    "git commit": "n=no-verify a=all m=message F=file p=patch s=signoff e=edit S=gpg-sign",
    "git branch": "D=delete+force M=move+force C=copy+force d=delete m=move c=copy f=force r=remotes a=all",
    "git add": "A=all f=force u=update n=dry-run p=patch i=interactive",
    "git clean": "f=force n=dry-run i=interactive e=exclude",
    "git checkout": "f=force m=merge p=patch d=detach",
    "git switch": "f=force C=force-create c=create d=detach",
    "git tag": "d=delete f=force a=annotate s=sign",
    "git merge": "n=no-stat m=message",
    "git rebase": "i=interactive x=exec f=force-rebase",
    "git restore": "S=staged W=worktree s=source p=patch",
    "git stash": "u=include-untracked a=all k=keep-index",
    "git fetch": "a=append f=force p=prune n=no-tags t=tags",
    "docker": "a=all f=force",
    "docker run": "v=volume p=publish P=publish-all d=detach e=env i=interactive t=tty u=user w=workdir h=hostname",
    "docker exec": "u=user e=env d=detach i=interactive t=tty w=workdir",
    "docker rm": "f=force v=volumes l=link",
    "docker compose": "v=volumes f=file f=force p=project-name d=detach",
    "kubectl": "n=namespace A=all-namespaces f=filename R=recursive l=selector k=kustomize o=output",
    "helm": "n=namespace A=all-namespaces f=values i=install",
    "npm": "g=global f=force D=save-dev S=save E=save-exact O=save-optional w=workspace d= y=yes a=",
    "pip": "r=requirement e=editable U=upgrade i=index-url y=yes t=target c=constraint d=",
    "curl": (
        "X=request d=data k=insecure o=output O=remote-name T=upload-file F=form u=user H=header L=location K=config "
        "f=fail e=referer i=include r=range R=remote-time a=append x=proxy n=netrc v=verbose g=globoff"
    ),
    "wget": "O=output-document P=directory-prefix i=input-file r=recursive x=force-directories o=output-file",
    "sed": "i=in-place n=quiet e=expression f=file r=regexp-extended E=regexp-extended s=separate",
    "tar": (
        "x=extract x=get c=create t=list f=file z=gzip C=directory P=absolute-names d=diff r=append u=update v=verbose"
    ),
    "rsync": "a=archive r=recursive R=relative n=dry-run e=rsh v=verbose",
    "chmod": "R=recursive v=verbose c=changes f=silent r= x=",
    "chown": "R=recursive v=verbose c=changes f=silent h=no-dereference",
    "cp": "r=recursive R=recursive f=force a=archive n=no-clobber T=no-target-directory",
    "mv": "f=force n=no-clobber i=interactive T=no-target-directory",
    "ln": "s=symbolic f=force n=no-dereference",
    "systemctl": "f=force a=all H=host M=machine",
    "apt-get": "y=yes y=assume-yes s=simulate s=dry-run d=download-only f=fix-broken",
    "pacman": "S=sync R=remove U=upgrade Q=query D=database s=search u=sysupgrade y=refresh n=nosave",
    "crontab": "r= e= l=",
    "tail": "f=follow F=follow",
    "tsc": "b=build p=project w=watch",
    "useradd": "o=non-unique m=create-home",
    "gh": "R=repo f=field F=raw-field X=method H=header d=delete-branch s=squash m=merge r=rebase",
}
_LETTERS["podman"], _LETTERS["apt"], _LETTERS["chgrp"] = _LETTERS["docker"], _LETTERS["apt-get"], _LETTERS["chown"]
# Long options with another name.
ONE_OPTION = {"--net": "--network", "--assume-yes": "--yes", "--location=global": "--global", "--staged": "--cached"}
# Options that include what another one does.
IMPLIED: dict[str, list[tuple[str, list[str]]]] = {
    program: [(option, implied.split()) for option, _, implied in (each.partition(" ") for each in text.split("; "))]
    for program, text in {
        "curl": (
            "--data-raw --data -d; --data-binary --data -d; --data-urlencode --data -d; --data-ascii --data -d; "
            "--json --data -d; -O --output -o; --remote-name --output -o; --remote-name-all --output -o; "
            "-J --output -o; --output-dir --output -o"
        ),
        "rsync": (
            "--del --delete; --delete-before --delete; --delete-during --delete; --delete-delay --delete; "
            "--delete-after --delete; --delete-excluded --delete; --delete-missing-args --delete; -a -r; --archive -r"
        ),
        "cp": "-a -r; --archive -r",
        "rm": "--interactive=never --force -f",
        "ruff": "--fix-only --fix; --unsafe-fixes --fix",
        "wget": "-m -r; --mirror -r",
        "apt-get": "--force-yes -y --yes",
    }.items()
}
# Letters whose value may follow in the same word, so that the rest of it are no letters.
VALUED = {"git commit": "mFCct", "git tag": "mFu", "git merge": "mFsX", "git stash": "m"}

Letters = dict[str, list[tuple[str, ...]]]  # of each letter, the long options that stand for it


def _parse_letters(text: str) -> Letters:
    found: Letters = {}
    for each in text.split():
        letter, _, names = each.partition("=")
        found.setdefault(letter, []).extend([tuple(f"--{name}" for name in names.split("+"))] if names else [])
    return found


_BY_COMMAND = {key: _parse_letters(text) for key, text in _LETTERS.items()}


def letters_of(command: Argv) -> Letters:
    """Return the long forms of the letters of a program and its sub-command: the more exact table goes first."""
    keys = ("", command[0], " ".join(command[:2]))
    return {letter: names for key in keys for letter, names in _BY_COMMAND.get(key, {}).items()}


def canonical_name(argv: Argv) -> Argv:
    """Return the command with the usual name of its program, without its folder and in lower case."""
    name = name_of(argv).lower()
    if name.startswith("git-"):
        return ("git", name.removeprefix("git-"), *argv[1:])
    if name.startswith("pip3") and _PIP.fullmatch(name):
        name = "pip"
    return (*_PROGRAMS.get(name, (name,)), *argv[1:])
