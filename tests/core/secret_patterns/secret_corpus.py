"""A corpus of made-up secrets in arguments as agents send them: what it is, the arguments, and the text to be hidden.

The random parts are drawn when the corpus is built, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

_DRAW = random.Random(23)  # noqa: S311 - the same corpus each time


def draw(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Return a random part, with a letter and a digit near its start as nearly all have."""
    return _DRAW.choice(letters[:6]) + _DRAW.choice(letters[-6:]) + "".join(_DRAW.choices(letters, k=length - 2))


def hexa(length: int) -> str:
    return draw(length, "abcdef0123456789")


def upper(length: int) -> str:
    return draw(length, string.ascii_uppercase + "234567")


def small(length: int) -> str:
    return draw(length, string.ascii_lowercase + string.digits)


def b64(length: int) -> str:
    return base64.b64encode(_DRAW.randbytes(length)).decode()


def uuid4() -> str:
    return "-".join(hexa(size) for size in (8, 4, 4, 4, 12))


JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{draw(30)}.{draw(43)}"
LINES = "\n".join(b64(48) for _ in range(8))

# Formats known by sight: the fixed part, the random part, and what may follow.
TOKENS: dict[str, str] = {
    "AWS access key": "AKIA" + upper(16),
    "AWS temporary key": "ASIA" + upper(16),
    "Google API key": "AIza" + draw(35),
    "Google OAuth token": "ya29." + draw(60),
    "Google client secret": "GOCSPX-" + draw(28),
    "Azure client secret": draw(3) + "8Q~" + draw(34),
    "Azure storage key": b64(64),
    "Alibaba": "LTAI" + draw(20),
    "DigitalOcean": "dop_v1_" + hexa(64),
    "Databricks": "dapi" + hexa(32),
    "GitHub personal": "ghp_" + draw(36),
    "GitHub OAuth": "gho_" + draw(36),
    "GitHub user": "ghu_" + draw(36),
    "GitHub server": "ghs_" + draw(36),
    "GitHub refresh": "ghr_" + draw(36),
    "GitHub fine-grained": "github_pat_" + draw(22) + "_" + draw(59),
    "GitLab personal": "glpat-" + draw(20),
    "GitLab deploy": "gldt-" + draw(20),
    "GitLab runner": "glrt-" + draw(20),
    "GitLab trigger": "glptt-" + hexa(40),
    "GitLab feed": "glft-" + draw(20),
    "GitLab job": "glcbt-64_" + draw(20),
    "Bitbucket app password": "ATBB" + draw(32),
    "Atlassian": "ATATT3xFfGF0" + draw(180),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + draw(120),
    "npm": "npm_" + draw(36),
    "RubyGems": "rubygems_" + hexa(48),
    "crates.io": "cio" + draw(32),
    "Docker": "dckr_pat_" + draw(27),
    "NuGet": "oy2" + small(43),
    "Packagist": "packagist_uut_" + hexa(60),
    "Slack bot": f"xoxb-{_DRAW.randrange(10**11, 10**12)}-{_DRAW.randrange(10**12, 10**13)}-" + draw(24),
    "Slack user": f"xoxp-{_DRAW.randrange(10**11, 10**12)}-{_DRAW.randrange(10**11, 10**12)}-" + hexa(32),
    "Slack app": "xapp-1-A0123456789-" + hexa(64),
    "Slack webhook": "https://hooks.slack.com/services/T0123ABCD/B0123ABCD/" + draw(24),
    "Discord bot": "M" + draw(25) + "." + draw(6) + "." + draw(38),
    "Discord webhook": "https://discord.com/api/webhooks/123456789012345678/" + draw(68),
    "Telegram": "123456789:AA" + draw(33),
    "Teams webhook": f"https://acme.webhook.office.com/webhookb2/{uuid4()}@{uuid4()}/IncomingWebhook/{hexa(32)}/{uuid4()}",
    "OpenAI": "sk-proj-" + draw(74),
    "OpenAI, old": "sk-" + draw(48),
    "Anthropic": "sk-ant-api03-" + draw(93) + "AA",
    "OpenRouter": "sk-or-v1-" + hexa(64),
    "HuggingFace": "hf_" + draw(34, string.ascii_letters),
    "Groq": "gsk_" + draw(52),
    "xAI": "xai-" + draw(80),
    "Replicate": "r8_" + draw(37),
    "Perplexity": "pplx-" + draw(48),
    "NVIDIA": "nvapi-" + draw(64),
    "Tavily": "tvly-dev-" + draw(32),
    "LangSmith": "lsv2_pt_" + hexa(32) + "_" + hexa(10),
    "Pinecone": "pcsk_" + draw(60),
    "Stripe": "sk_live_" + draw(24),
    "Stripe restricted": "rk_live_" + draw(24),
    "Stripe webhook": "whsec_" + draw(32),
    "Square": "sq0atp-" + draw(22),
    "Square, new": "EAAA" + draw(60),
    "Braintree": "access_token$production$" + small(16) + "$" + hexa(32),
    "Shopify": "shpat_" + hexa(32),
    "Razorpay": "rzp_live_" + draw(14),
    "Plaid": "access-production-" + uuid4(),
    "Twilio": "SK" + hexa(32),
    "SendGrid": "SG." + draw(22) + "." + draw(43),
    "Mailgun": "key-" + hexa(32),
    "Mailgun, new": hexa(32) + "-" + hexa(8) + "-" + hexa(8),
    "Mailchimp": hexa(32) + "-us14",
    "Brevo": "xkeysib-" + hexa(64) + "-" + draw(16),
    "Vault": "hvs." + draw(90),
    "Vault, old": "s." + draw(24),
    "Terraform Cloud": draw(14) + ".atlasv1." + draw(67),
    "Heroku": "HRKU-" + draw(58),
    "Fly": "fo1_" + draw(43),
    "Netlify": "nfp_" + draw(36),
    "Vercel": "vcp_" + draw(56),
    "Cloudflare origin key": f"v1.0-{hexa(24)}-{hexa(146)}",
    "Pulumi": "pul-" + hexa(40),
    "Doppler": "dp.st.prd." + draw(40),
    "1Password": "ops_eyJ" + draw(250),
    "New Relic": "NRAK-" + upper(27),
    "Grafana": "glsa_" + draw(32) + "_" + hexa(8),
    "Sentry": "sntrys_eyJ" + draw(120) + "_" + draw(43),
    "Linear": "lin_api_" + draw(40),
    "Notion": "ntn_12345678901" + draw(35),
    "Figma": "figd_" + draw(40),
    "Airtable": "pat" + draw(14) + "." + hexa(64),
    "Asana": "1/1234567890123456:" + hexa(32),
    "Postman": "PMAK-" + hexa(24) + "-" + hexa(34),
    "PlanetScale": "pscale_tkn_" + draw(43),
    "Supabase": "sbp_" + hexa(40),
    "Dynatrace": "dt0c01." + upper(24) + "." + upper(64),
    "Tailscale": "tskey-auth-" + draw(12) + "-" + draw(32),
    "Docker swarm": "SWMTKN-1-" + small(49) + "-" + small(25),
    "Prefect": "pnu_" + draw(36),
    "CircleCI": "CCIPAT_" + draw(22) + "_" + hexa(40),
    "age": "AGE-SECRET-KEY-1" + upper(58),
    "bcrypt": "$2b$12$" + draw(53),
    "shadow": f"$6${draw(8)}${draw(86)}",
    "yescrypt": f"$y$j9T${draw(22)}${draw(43)}",
    "argon2": f"$argon2id$v=19$m=65536,t=3,p=4${draw(22)}${draw(43)}",
    "JWT": JWT,
    "sayso": "sayso_approver_" + draw(43),
}
_PLACES = (
    "use {} for this",
    "{}",
    'headers = {{"x": "{}"}}',
    "curl https://api.example.com/v1/things -d '{}'",
    "line one\nvalue={}\nline three",
    "see ({}), please",
)


def _in_places() -> list[tuple[str, Any, str]]:
    return [
        (name, {"text": _PLACES[at % 6].format(token)}, token[-16:]) for at, (name, token) in enumerate(TOKENS.items())
    ]


def _line(name: str, template: str, password: str) -> tuple[str, Any, str]:
    return name, {"command": template.replace("@@", password)}, password


SIGNS = "Qx7!mZr2#kLp"
PW, TRICKY, RANDOM = "Tr0ub4dor&3x"[:9] + "zq", "p@ss:w0rd/x#1", draw(24)
LINES_OF_TEXT = [
    _line("curl -u", "curl -u ann:@@ https://api.example.com/x", PW),
    _line("curl --user", "curl -s --user 'ann:@@' https://api.example.com/x", PW),
    _line("mysql -p", "mysql -h db -u root -p@@ shop -e 'select 1'", PW),
    _line("mysqldump -p", "mysqldump -uroot -p'@@' shop > dump.sql", PW),
    _line("sshpass", "sshpass -p @@ ssh root@10.0.0.5 uptime", PW),
    _line("docker login", "docker login -u ann -p @@ registry.example.com", PW),
    _line("redis-cli", "redis-cli -h cache -a @@ ping", PW),
    _line("mongosh", "mongosh db.example/shop -u ann -p @@ --eval 1", PW),
    _line("sqlcmd", "sqlcmd -S db -U sa -P @@ -Q 'select 1'", PW),
    _line("ldapsearch", "ldapsearch -x -D cn=admin -w @@ -b dc=x", PW),
    _line("zip", "zip -P @@ out.zip report.pdf", PW),
    _line("smbclient", "smbclient //srv/share -U ann%@@ -c ls", PW),
    _line("httpie", "http -a ann:@@ GET example.com", PW),
    _line("openssl", "openssl rsa -in key.pem -passin pass:@@ -out out.pem", PW),
    _line("keytool", "keytool -list -keystore k.jks -storepass @@", PW),
    _line("gpg", "gpg --batch --passphrase @@ -d x.gpg", PW),
    _line("sudo -S", "echo @@ | sudo -S apt-get update", PW),
    _line("chpasswd", "echo 'ann:@@' | chpasswd", PW),
    _line("password-stdin", "echo '@@' | docker login -u ann --password-stdin", PW),
    _line("htpasswd", "htpasswd -b .htpasswd ann @@", PW),
    _line("--password", "tool --host x --password @@ --verbose", PW),
    _line("--token=", "tool --token=@@ run", PW),
    _line("--api-key", 'tool --api-key "@@" run', PW),
    _line("--client-secret", "az ad sp create --client-secret @@", PW),
    _line("PGPASSWORD", "PGPASSWORD=@@ psql -h db -U app", PW),
    _line("export", "export STRIPE_SECRET_KEY='@@'", PW),
    _line("heroku config", "heroku config:set API_KEY=@@ -a shop", PW),
    _line("kubectl literal", "kubectl create secret generic db --from-literal=pw1=@@", PW),
    _line("fly secrets", "fly secrets set THING=@@", PW),
    _line("aws configure", "aws configure set aws_secret_access_key @@", PW),
    _line("npm config", "npm config set //registry.example.com/:_authToken @@", PW),
    _line("npmrc", "//registry.example.com/:_authToken=@@", PW),
    _line("Dockerfile", "FROM x\nENV DB_PASSWORD @@\nRUN y", PW),
    _line("PowerShell", '$env:API_TOKEN = "@@"', PW),
    _line("java property", "java -Dspring.datasource.password=@@ -jar app.jar", PW),
    _line("header", "curl -H 'X-Api-Key: @@' https://x.example", PW),
    _line("header, other", 'curl -H "PRIVATE-TOKEN: @@" https://x.example', PW),
    _line("bearer", "curl -H 'Authorization: Bearer @@' https://x.example", PW),
    _line("basic", "Authorization: Basic @@", b64(18)),
    _line("token scheme", "Authorization: token @@", PW),
    _line("bare header", "Authorization: @@", PW),
    _line("digest", 'Authorization: Digest username="ann", response="@@"', hexa(32)),
    _line("cookie", "curl -b x -H 'Cookie: theme=dark; session=@@' https://x.example", RANDOM),
    _line("set-cookie", "Set-Cookie: sid=@@; Path=/; HttpOnly", RANDOM),
    _line("netrc", "machine api.example.com login ann password @@", PW),
    _line("netrc in lines", "machine api.example.com\n  login ann\n  password @@\n", PW),
    _line("pgpass", "echo 'db.example:5432:shop:ann:@@' >> ~/.pgpass", PW),
    _line("postgres", "psql postgres://app:@@@db/main", PW),
    _line("password with @", "psql postgres://app:@@@db/main", "pa@ss@w0rd1"),
    _line("password with /", "psql postgresql://app:@@@db:5432/main?sslmode=require", TRICKY),
    _line("redis", "redis://:@@@cache:6379/0", PW),
    _line("mongodb", "mongodb+srv://app:@@@cluster0.example.net/shop", PW),
    _line("git clone", "git clone https://oauth2:@@@git.example.com/a/b.git", PW),
    _line("token as user", "git clone https://@@@git.example.com/a/b.git", RANDOM),
    _line("Stripe as user", "curl https://@@:@api.example.com/v1/charges", RANDOM),
    _line("Sentry DSN", "SENTRY=https://@@@o1.ingest.sentry.io/42", hexa(32)),
    _line("JDBC", "jdbc:postgresql://db/main?user=app&password=@@", PW),
    _line("JDBC Oracle", "jdbc:oracle:thin:scott/@@@//db:1521/x", PW),
    _line("ODBC", "Driver={SQL Server};Server=db;Uid=sa;Pwd=@@;", PW),
    _line("ADO", "Server=db;Database=x;User Id=sa;Password=@@;Encrypt=yes", PW),
    _line("Azure connection", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@", b64(64)),
    _line("service bus", "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=@@", b64(32)),
    _line(
        "SAS",
        "https://x.blob.core.windows.net/c/f?sv=2024-01-01&sr=b&sig=@@&se=2026",
        b64(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
    ),
    _line("presigned", "https://b.s3.amazonaws.com/f?X-Amz-Date=20260101T000000Z&X-Amz-Signature=@@", hexa(64)),
    _line("query token", "https://x.example/a?page=2&access_token=@@", PW),
    _line("query key", "https://maps.example.com/api?key=@@&q=x", RANDOM),
    _line(".env", "DEBUG=1\nSECRET_KEY=@@\nPORT=80\n", PW),
    _line(".env, & and ;", "A=1\nDB_PASS=@@\nB=2", "x9%kd#Lm!q"),
    _line("YAML", "db:\n  user: app\n  password: @@\n", PW),
    _line("YAML block", "key:\n  private_key: |\n    @@\n  other: 1\n", RANDOM),
    _line("TOML", 'api_token = "@@"', PW),
    _line("INI", "[db]\npasswd = @@\n", PW),
    _line("JSON text", '{"user": "ann", "client_secret": "@@"}', PW),
    _line("JSON in JSON", json.dumps(json.dumps({"password": "@@", "a": 1})), PW),
    _line("Python", 'client = Client(api_key="@@")', PW),
    _line("Python, typed", 'password: str = "@@"', PW),
    _line("Python dict", 'config["password"] = "@@"', PW),
    _line("JavaScript", "const authToken = '@@';", PW),
    _line("PHP", "'password' => '@@',", PW),
    _line("Go", 'apiKey := "@@"', PW),
    _line("XML", "<server><id>x</id><password>@@</password></server>", PW),
    _line("NuGet config", '<add key="ClearTextPassword" value="@@" />', PW),
    _line("pair in YAML", "env:\n  - name: DB_PASSWORD\n    value: @@\n", PW),
    _line("SQL user", "CREATE USER ann IDENTIFIED BY '@@';", PW),
    _line("SQL role", "ALTER ROLE ann WITH PASSWORD '@@';", PW),
    _line("prose", "The password is @@, do not tell anyone.", PW),
    _line("prose with colon", "Login: ann, API key: @@", PW),
    _line("comparison", 'if password == "@@":', PW),
    _line("PEM", "-----BEGIN RSA PRIVATE KEY-----\n@@\n-----END RSA PRIVATE KEY-----", LINES),
    _line("OpenSSH", "-----BEGIN OPENSSH PRIVATE KEY-----\n@@\n-----END OPENSSH PRIVATE KEY-----", LINES),
    _line("PGP", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n@@\n-----END PGP PRIVATE KEY BLOCK-----", LINES),
    _line("key without header", "MIIEowIBAAKCAQEA@@", LINES),
    _line("shadow", "root:@@:19000:0:99999:7:::", f"$6${draw(16)}${draw(86)}"),
    _line("WireGuard", "[Interface]\nPrivateKey = @@\n", b64(32)),
    _line("Django", "SECRET_KEY = '@@'", "django-insecure-" + draw(40)),
    _line("name and word", "rclone config create x s3 secret_access_key @@", draw(40)),
    _line("define", "define('DB_PASSWORD', '@@');", SIGNS),
    _line("header in code", 'headers.set("X-Api-Key", "@@")', SIGNS),
    _line("login in code", "requests.get(url, auth=('ann', '@@'))", SIGNS),
    _line("password with #", "git remote add o https://ann:@@@git.example.com/a/b", SIGNS),
    _line("German", "Passwort: @@", SIGNS),
    _line("pw:", "pw: @@", SIGNS),
    _line("header of a function", "curl -H 'x-functions-key: @@' https://x.example", SIGNS),
    _line("gh secret", "gh secret set NAME --body @@", SIGNS),
    _line("here string", "wrangler secret put NAME <<< @@", SIGNS),
    _line("SetEnv", "SetEnv DB_PASSWORD @@", SIGNS),
    _line("helm", "helm upgrade x y --set postgresql.auth.password=@@", SIGNS),
    _line("terraform", "TF_VAR_db_password=@@ terraform apply", SIGNS),
    _line("lftp", "lftp -u ann,@@ ftp.example.com", SIGNS),
    _line("Twilio token", "TWILIO_AUTH_TOKEN=@@", hexa(32)),
    _line("Datadog", "DD_API_KEY=@@ datadog-agent run", hexa(32)),
    _line("Postmark", "X-Postmark-Server-Token: @@", uuid4()),
    _line("wget", "wget --user=ann --password=@@ https://x.example", PW),
]
VALUES: list[tuple[str, Any, str]] = [
    *((f"argument {name}", {name: PW}, PW) for name in (
        "password", "pw", "pwd", "pass_", "passwd", "pat", "bearer", "signing_key", "api_key", "apiKey", "token",
        "accessToken", "refresh_token", "client_secret", "secretAccessKey", "aws_secret_access_key", "db_pass",
        "smtp_pass", "passphrase", "private_key", "encryption_key", "X-Api-Key", "Authorization", "cookie", "auth",
        "credentials", "connection_string", "openai_key", "webhook_secret", "otp", "master_key", "account_key",
        "dbPassword",
        "MYSQL_ROOT_PASSWORD", "recovery_code", "password2", "new_password", "jwt", "dsn", "service_role_key",
        "csrf", "security_answer", "basic_auth",
        "GITHUB_PAT", "wifi_psk", "sas_token",
        "keypass",
    )),
    ("argument key", {"key": RANDOM}, RANDOM),
    ("argument sig", {"sig": RANDOM}, RANDOM),
    ("number", {"pin": 493817}, "493817"),
    ("list under a name", {"tokens": [PW]}, PW),
    ("flag in a list", {"argv": ["tool", "--password", PW, "-v"]}, PW),
    ("flag and words", {"argv": ["tool", "--passphrase", "correct horse battery"]}, "horse battery"),
    ("short option in a list", {"argv": ["sshpass", "-p", PW, "ssh", "x"]}, PW),
    ("curl in a list", {"argv": ["curl", "-u", f"ann:{PW}", "https://x.example"]}, PW),
    ("mysql in a list", {"argv": ["mysql", "-uroot", f"-p{PW}"]}, PW),
    ("docker in a list", {"argv": ["docker", "login", "-u", "ann", "-p", PW]}, PW),
    ("program and arguments", {"command": "sshpass", "args": ["-p", PW, "ssh", "x"]}, PW),
    ("header pair", {"headers": [["Accept", "*/*"], ["X-Api-Key", PW]]}, PW),
    ("header pair, flat", {"headers": ["Accept", "*/*", "X-Api-Key", PW]}, PW),
    ("header mapping", {"headers": {"X-Auth-Token": PW}}, PW),
    ("name and value", {"env": [{"name": "DB_PASSWORD", "value": PW}]}, PW),
    ("key and value", {"key": "API_TOKEN", "value": PW}, PW),
    ("Key and Value", {"Key": "db_password", "Value": PW}, PW),
    ("ParameterKey", {"ParameterKey": "DbPassword", "ParameterValue": PW}, PW),
    ("header and value", {"header": "X-Api-Key", "value": PW}, PW),
    ("field and content", {"field": "client_secret", "content": PW}, PW),
    ("form field", {"selector": "#login input[name=password]", "text": PW}, PW),
    ("form element", {"element": "Password textbox", "ref": "e12", "text": PW}, PW),
    ("environment list", {"environment": [f"DB_PASSWORD={PW}", "A=1"]}, PW),
    ("deep", {"a": [{"b": {"c": [f"token={PW}"]}}]}, PW),
    ("bot in an address", {"url": f"https://api.telegram.org/bot123456789:AA{RANDOM * 2}/sendMessage"[:90]}, RANDOM),
    ("parameter", {"command": f"aws ssm put-parameter --name /a/b --type SecureString --value {RANDOM}"}, RANDOM),
    ("parameter, type last", {"command": f"aws ssm put-parameter --value {RANDOM} --type SecureString"}, RANDOM),
    ("key vault", {"command": f"az keyvault secret set --vault-name v --name n --value {RANDOM}"}, RANDOM),
    ("share", {"command": f"net use \\\\srv\\share /user:ann {RANDOM}"}, RANDOM),
    ("share, user last", {"command": f"net use \\\\srv\\share {RANDOM} /user:ann"}, RANDOM),
    ("spoken pw", {"text": f"the root pw is: {RANDOM}"}, RANDOM),
    ("poetry", {"command": f"poetry config pypi-token.pypi {RANDOM}"}, RANDOM),
    ("ldap, in one word", {"command": f"ldapsearch -x -w{RANDOM} -b dc=x"}, RANDOM),
    ("twine, in one word", {"command": f"twine upload -p{RANDOM} dist/a.whl"}, RANDOM),
    ("key's passphrase", {"command": f"ssh-keygen -p -P {RANDOM} -f key"}, RANDOM),
    ("etcd", {"command": f"etcdctl --user root:{RANDOM} get a"}, RANDOM),
    ("cargo", {"command": f"cargo login {RANDOM}"}, RANDOM),
    ("redis, as a setting", {"content": f"requirepass {RANDOM}"}, RANDOM),
    ("minio", {"command": f"mc alias set m http://h admin {RANDOM}"}, RANDOM),
    ("key that is a secret", {f"sk-proj-{RANDOM}": 1}, RANDOM),
]  # fmt: skip
SECRETS = [*_in_places(), *LINES_OF_TEXT, *VALUES]


def shows(written: str, hidden: str) -> bool:
    """Whether six characters in a row of the hidden text are in what was written, on one line or as JSON."""
    lines = [line for line in hidden.split("\n") if line]
    return any(line[at : at + 6] in written for line in lines for at in range(max(1, len(line) - 5)))
