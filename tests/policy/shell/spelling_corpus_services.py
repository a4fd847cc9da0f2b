"""More of `spelling_corpus`: containers, clouds and packages."""

from tests.policy.shell.spelling_corpus import Case

# fmt: off
CASES: dict[str, Case] = {
    "kubectl": Case(
        ("kubectl", "helm", "kubectl --context dev"),
        (
            "kubectl delete", "kubectl rollout undo", "kubectl apply --force", "helm uninstall",
            "kubectl -n prod exec", "kubectl delete --all", "kubectl scale --replicas=0", "kubectl drain",
        ),
        {
            "leading options": (
                "kubectl -n prod delete pod x", "kubectl --namespace prod delete pod x",
                "kubectl --namespace=prod delete x", "kubectl -v 9 delete pod x",
                "kubectl --context x -n y delete pod z", "kubectl --as root drain node",
                "kubectl -s https://x:6443 delete pod x", "kubectl --insecure-skip-tls-verify delete pod x",
                "kubectl --insecure-skip-tls-verify true delete pod x", "kubectl -- delete pod x",
                "helm -n x uninstall y", "helm --kube-context a --namespace b uninstall y",
                "helm --debug uninstall y",
            ),
            "between": (
                "kubectl rollout -n prod undo deploy/x", "kubectl -n a rollout --context b undo deploy/x",
                "kubectl rollout -n prod --context=x undo deploy/x", "kubectl rollout --v 3 -n prod undo x",
                "kubectl --context x rollout -R -n prod undo x",
            ),
            "order": (
                "kubectl apply -f x.yml --force", "kubectl apply --filename x.yml --force=true",
                "kubectl delete pods --all", "kubectl exec -n prod x -- ls", "kubectl exec x --namespace prod -- ls",
                "kubectl exec x -nprod -- ls", "kubectl exec x --namespace=prod -- ls",
                "kubectl -nprod exec x -- ls",
            ),
            "value": (
                "kubectl scale deploy x --replicas 0", "kubectl scale --replicas 0 deploy x",
                "kubectl -n y scale deploy x --replicas=0", "kubectl --context y scale --replicas 0 deploy x",
            ),
            "other name": ("helm del x", "helm delete x", "helm un x", "helm -n y delete x", "helm --debug del x"),
        },
        (
            "kubectl get pods", "kubectl get pods -l app=delete", "kubectl -n prod get pods",
            "kubectl describe pod delete", "kubectl -n x get events", "kubectl logs -f x",
            "kubectl logs delete -n prod", "kubectl apply -f delete.yml", "kubectl apply -f x.yml",
            "kubectl rollout status deploy/x", "kubectl rollout -n prod status undo", "kubectl rollout history x",
            "kubectl -n dev exec x -- ls", "kubectl scale --replicas=3 deploy x",
            "kubectl scale --replicas 10 deploy x", "kubectl get -n delete pods", "kubectl config view", "helm list",
            "kubectl top pod -n prod", "kubectl get ns", "kubectl --context x get nodes drain", "helm -n x list",
            "helm status uninstall", "helm get values x", "kubectl get deploy -o name", "kubectl explain drain",
            "kubectl get pods --all-namespaces", "kubectl port-forward svc/x 80", "kubectl diff -f delete.yml",
            "kubectl get --all-namespaces pods delete", "kubectl -n prod get pods exec.x", "helm template delete .",
        ),
    ),
    "docker": Case(
        ("docker", "docker compose", "docker-compose"),
        (
            "docker compose down", "docker rm", "docker run --privileged", "docker run -v", "docker system prune",
            "docker push", "docker rmi", "docker run --network host", "docker compose rm -f",
            "docker run --volumes-from",
        ),
        {
            "leading options": (
                "docker --context x rm y", "docker -H tcp://x rm y", "docker -D rm y", "docker --host=x push y",
                "docker --config d --context c system prune", "docker -l debug rmi x", "docker --tls rm x",
            ),
            "between": (
                "docker compose -f x down", "docker compose -f x.yml -f y.yml down -v",
                "docker compose --profile z down", "docker --context x compose -f y --profile z down",
                "docker compose -p x -f y --env-file e down", "docker compose --file=x down",
                "docker compose --ansi never down", "docker --context=x compose --dry-run down",
                "docker system --x prune", "docker system prune -af", "docker compose --project-directory d rm -f",
            ),
            "order": (
                "docker run --rm --privileged x", "docker run --rm -it --privileged=true x",
                "docker run --rm -v /:/h x", "docker run -it -v /:/h x", "docker run --name a --network host x",
                "docker compose rm x -f",
            ),
            "long and short": (
                "docker run --volume /:/h x", "docker run --rm --volume=/:/h x", "docker run --network=host x",
                "docker run --net host x", "docker run --net=host x", "docker compose rm --force x",
                "docker run -itv /:/h x", "docker run -v/:/h x", "docker compose rm -sf",
            ),
            "other name": (
                "docker container rm x", "docker container remove x", "docker image rm x", "docker image push x",
                "docker container run --privileged x", "docker-compose down", "docker-compose -f x down",
                "docker image remove x", "docker --context c container rm x",
                "docker-compose --profile a -f b down -v", "docker container --x rm y",
            ),
        },
        (
            "docker ps -a", "docker compose logs down-service", "docker compose up -d",
            "docker compose -f x logs down", "docker compose -f x up -d", "docker compose ps",
            "docker compose logs -f down", "docker run --rm x ls", "docker run -it --name rm x", "docker logs rm",
            "docker -D ps rm", "docker --debug logs push", "docker --context x ps", "docker build -t push .",
            "docker images", "docker inspect prune", "docker system df", "docker volume rm x", "docker network rm x",
            "docker service rm x", "docker stop rm", "docker tag a push", "docker compose rm x",
            "docker compose exec web ls down", "docker run --network bridge x", "docker pull rmi",
            "docker exec web ls", "docker compose restart down", "docker compose --profile z logs rm",
            "docker run -e A=1 x", "docker run --volume-driver local x", "docker run -p 80:80 -d x",
            "docker image ls", "docker container ls", "docker-compose ps", "docker-compose -f x logs",
            "docker run --name host x", "docker compose build --pull",
        ),
    ),
    "cloud": Case(
        ("aws", "gcloud", "gh", "az"),
        (
            "aws ec2 terminate-instances", "aws s3 rm", "aws s3 sync --delete", "gcloud compute instances delete",
            "gh pr merge", "gh repo delete", "gh api -X DELETE", "az vm delete", "aws iam",
        ),
        {
            "leading options": (
                "aws --region x ec2 terminate-instances --instance-ids i", "aws --profile p s3 rm s3://x",
                "aws --debug s3 rm s3://x", "aws --no-cli-pager --region x iam list-users",
                "gcloud -q compute instances delete x", "gcloud --project p compute instances delete x",
                "aws --output json --region x ec2 terminate-instances", "aws --endpoint-url http://x s3 rm s3://y",
                "az --debug vm delete", "aws --debug iam list-users",
            ),
            "between": (
                "aws ec2 --region x terminate-instances", "aws s3 --region x rm s3://y",
                "aws s3 --profile p --region x rm s3://y", "gh pr -R o/r merge 1", "gh pr --repo o/r merge 1",
                "gh repo -R x delete", "gh pr --repo=o/r merge", "gcloud compute --project p instances delete x",
                "gcloud compute instances --zone z delete x",
                "gcloud --project p compute --zone z instances --quiet delete x",
                "gcloud compute --project=p instances delete", "az vm -g x delete",
                "az vm --resource-group x --name y delete",
                "gcloud --quiet compute --account a instances --zone z delete x",
                "aws ec2 --no-paginate terminate-instances",
            ),
            "order": (
                "aws s3 sync a s3://b --delete", "aws s3 sync --exact-timestamps a b --delete", "gh api x -X DELETE",
            ),
            "value": (
                "gh api -XDELETE x", "gh api --method DELETE x", "gh api --method=DELETE x",
                "gh api x --method DELETE", "gh api -X=DELETE x",
            ),
        },
        (
            "aws s3 ls s3://rm", "aws s3 ls", "aws s3 cp a s3://rm", "aws --region x ec2 describe-instances",
            "aws ec2 describe-instances --filters terminate-instances", "aws ec2 --region x describe-instances",
            "aws s3 sync a s3://b", "aws --debug ec2 describe-instances iam", "aws sts get-caller-identity",
            "aws s3 sync a b --no-progress", "gh pr view 1", "gh pr list -R o/r", "gh pr -R o/r view merge",
            "gh issue list", "gh pr checkout merge", "gh api repos/o/r", "gh api -X GET x", "gh repo view delete",
            "gh run list", "gcloud compute instances list", "gcloud compute --project p instances list",
            "gcloud -q config list delete", "gcloud compute instances describe delete", "az vm list",
            "az vm -g x show", "gh pr create --title merge", "gh search prs merge", "aws logs tail iam",
            "gcloud compute disks list", "gh pr diff 1", "gh repo clone o/delete",
        ),
    ),
    "packages": Case(
        ("npm", "pip", "pip3", "yarn", "pnpm", "cargo", "npm run", "python3 -m"),
        (
            "npm publish", "npm install", "npm install -g", "pip install", "yarn publish", "pnpm publish",
            "cargo publish", "npm uninstall", "cargo run", "pip config set",
        ),
        {
            "leading options": (
                "npm --silent publish", "npm --registry http://x publish", "npm -w pkg publish",
                "npm --json true publish", "npm --prefix web install", "npm -s install x", "pip -q install x",
                "pip --proxy http://x install y", "pip --no-input install x", "pip -v -q install x",
                "yarn --cwd x publish", "pnpm -r publish", "pnpm --filter a publish", "pnpm -C web publish",
                "cargo -q publish", "cargo +nightly publish", "cargo --color never publish", "cargo -Z x publish",
                "cargo --config a=b publish", "npm -- publish",
            ),
            "between": ("pip config --user set a b", "pip -q config --site set a b"),
            "other name": (
                "npm i x", "npm add x", "npm in x", "npm isntall x", "npm --silent i x", "npm i -g x", "npm un x",
                "npm rm x", "npm r x", "cargo r", "pip3 install x", "pip3.11 install x", "pip3 -q install x",
                "npm unlink x", "python3 -m pip install x", "python3 -I -m pip install x",
                "python -W ignore -m pip -q install x", "python3.12 -m pip install x", "npm --location=global i x",
            ),
            "short name": (
                "npm pub", "npm publ", "npm publi --tag x", "npm --silent publis", "npm insta x", "npm uninst x",
            ),
        },
        (
            "npm run publish-docs", "npm run publish", "npm run build -- publish", "npm --silent run publish",
            "npm --prefix web run install", "npm test", "npm t", "npm ls", "npm pack", "npm ping", "npm prefix",
            "npm ci", "npm view install", "npm -s run publish", "npm exec publish", "npm run-script install",
            "npm outdated", "npm x install", "npm up", "npm init", "npm audit", "npm version patch",
            "npm -w pkg run publish", "npm it-is-no", "pip list", "pip -q list", "pip show install",
            "pip --no-input freeze", "pip download install", "pip config list", "pip3 list", "yarn run publish",
            "yarn --silent run publish", "yarn build", "pnpm -r run publish", "pnpm test",
            "pnpm --filter a run publish", "cargo build", "cargo test run", "cargo -q build publish", "cargo check",
            "cargo +nightly build", "cargo tree --invert publish", "python3 -m pytest install",
            "python3 -m pip list", "python3 -m venv install", "npm help install", "npm root -g", "pip check",
            "cargo b --release", "npm c get x",
        ),
    ),
    "terraform": Case(
        ("terraform", "tofu"),
        (
            "terraform apply", "terraform destroy", "terraform plan -destroy", "terraform state rm",
            "tofu apply -auto-approve",
        ),
        {
            "leading options": (
                "terraform -chdir=x apply", "terraform -chdir=x destroy", "terraform -chdir=a state rm b",
                "terraform --chdir=x apply", "terraform -chdir x apply",
            ),
            "between": (
                "terraform state -x y rm a", "terraform state -state=x rm a", "terraform -chdir=x state -y rm a",
            ),
            "one dash or two": (
                "terraform plan --destroy", "terraform plan -out=x -destroy", "terraform -chdir=x plan --destroy",
                "tofu apply --auto-approve", "tofu apply -auto-approve=true", "tofu apply x -auto-approve",
                "terraform plan -destroy=true", "tofu apply --auto-approve=true x",
            ),
        },
        (
            "terraform plan", "terraform plan -out=destroy", "terraform -chdir=x plan", "terraform show apply",
            "terraform state list", "terraform state show rm", "terraform validate", "terraform fmt -check",
            "tofu apply", "terraform output destroy", "terraform -chdir=apply plan",
            "terraform plan -refresh=false -lock=true", "tofu plan -detailed-exitcode -input=false",
            "terraform providers", "terraform workspace show", "terraform graph -type=plan", "terraform -version",
            "tofu apply -input=false", "terraform plan -target=destroy",
        ),
    ),
    "kinds": Case(
        ("kubectl get", "kubectl describe", "kubectl logs", "oc get", "kubectl delete"),
        (
            "kubectl get secret", "kubectl describe secrets", "kubectl get hpa", "kubectl get clusterroles",
            "kubectl get netpol", "kubectl delete pod db", "kubectl delete svc/web", "oc get secret",
        ),
        {
            "group": (
                "kubectl get secrets.", "kubectl get secrets.v1.", "kubectl get secret. x",
                "kubectl get cm,secrets.v1.",
                "kubectl get horizontalpodautoscalers.autoscaling", "kubectl get hpa.v2.autoscaling",
                "kubectl get clusterroles.rbac.authorization.k8s.io", "oc get secrets.v1. x",
            ),
            "other name": (
                "kubectl get SECRETS", "kubectl get horizontalpodautoscaler", "kubectl get clusterrole x",
                "kubectl get networkpolicies", "kubectl get networkpolicy x", "kubectl get -o yaml secret",
            ),
            "several": (
                "kubectl get pod/x secret/y", "kubectl get pod/x secrets/y -o yaml", "kubectl describe pod/x secret/y",
                "kubectl delete pod web db", "kubectl delete pod/web pod/db", "kubectl delete pod/db",
                "kubectl delete po db -n x", "kubectl delete service web", "kubectl delete services/api service/web",
            ),
        },
        (
            "kubectl get pods", "kubectl get pod/x svc/y", "kubectl describe pod/x", "kubectl get pods -n dev -o yaml",
            "kubectl get deploy web", "kubectl logs secret-reader", "kubectl get sealedsecrets", "kubectl get cm x",
            "kubectl get rolebindings", "kubectl get events", "oc get pods", "kubectl delete pod web",
            "kubectl delete svc api", "kubectl logs deploy/web --tail 5",
        ),
    ),
}
