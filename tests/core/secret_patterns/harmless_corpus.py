"""A corpus of harmless values as agents send them: code, diffs, sums, ids, paths, addresses, shell lines and prose."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

_SHA256 = hashlib.sha256(b"x").hexdigest()
_SHA1 = _SHA256[:40]
_SHA512 = "sha512-" + "Zm9vYmFy" * 10 + "Zm9vYg=="
_UUID = str(uuid.UUID(int=0x6F1C1A0E8F0E4F5C9D530123456789AB))

CODE = r"""
def get_token(user: User) -> str:
    return user.token
===
token = get_token(user)
===
password = getpass.getpass("Password: ")
===
self.password = password
===
self._token = token or os.environ["API_TOKEN"]
===
api_key = os.environ.get("OPENAI_API_KEY")
===
const token = req.headers.authorization?.split(" ")[1];
===
client = OpenAI(api_key=settings.openai_api_key)
===
db.connect(user=user, password=password, host=host)
===
if token == expected_token:
    return True
===
if password != confirm_password:
    raise ValueError("passwords do not match")
===
tokens = tokenizer.encode(text, add_special_tokens=False)
===
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
===
response = client.create(model=model, max_tokens=200, temperature=0.2)
===
author = "Ann Example"
===
class User(Base):
    id = Column(Integer, primary_key=True)
    password_hash = Column(String(128))
===
password: str
===
token: string;
===
password: Optional[str] = None
===
def login(username: str, password: str) -> Token:
===
interface Props { token: string; onChange: (token: string) => void }
===
const { data: session } = useSession();
===
type Config struct {
    APIKey   string `json:"api_key"`
    Password string `yaml:"password"`
}
===
fn parse(token: &Token) -> Result<Expr> {
===
let token = lexer.next_token()?;
===
for key, value in mapping.items():
    result[key] = value
===
sorted(rows, key=lambda row: row.name)
===
document.addEventListener("keydown", (event) => { if (event.key === "Enter") submit(); });
===
assert response.status_code == 401, "token expired"
===
logger.info("user %s signed in", user.name)
===
public_key: PublicKey = load(path)
===
secret = Secret.from_name("db")
===
PASSWORD_MIN_LENGTH = 12
===
TOKEN_EXPIRY_SECONDS = 3600
===
SESSION_COOKIE_SECURE = True
===
AUTH_USER_MODEL = "accounts.User"
===
SECRET_KEY = os.environ["SECRET_KEY"]
===
return { statusCode: 200, body: JSON.stringify({ ok: true }) };
===
import { useAuth } from "../hooks/useAuth";
===
raise AuthenticationError("invalid token")
===
password_field = page.locator("#password")
===
<input type="password" name="password" id="password" autocomplete="off">
===
<label for="password">Password</label>
===
headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
===
fetch(url, { credentials: "include", headers: { Authorization: `Bearer ${token}` } })
===
req.Header.Set("Authorization", "Bearer "+token)
===
x = data["key"]
===
@pytest.mark.parametrize("key", ["a", "b"])
===
switch (token.type) { case TokenType.Plus: return left + right; }
===
while ((match = pattern.exec(text)) !== null) { tokens.push(match[0]); }
===
cache_key = f"{user_id}:{page}"
===
parser.add_argument("--token", help="the API token", required=True)
===
private static final String KEY = "user.name";
===
monkey = Monkey(name="George"); keyboard.press("a")
===
async with session.get(url, headers=headers) as resp:
===
#define PIN_LED 13
===
int pin = 13; digitalWrite(pin, HIGH);
===
fields = ("password", "email", "token")
===
del_tokens = {x.lower() for x in self.del_tokens}
===
os.environ.setdefault("TOKEN_URL", "https://x.example/token")
===
val secretary = Employee(name = "Eve", role = "secretary")
===
compass = bypass(first_pass=1, second_pass=2)
===
signature = inspect.signature(function)
===
from sayso.core.tokens import make, is_valid
===
const [password, setPassword] = useState("");
===
export const selectToken = (state: RootState) => state.auth.token;
===
CREATE TABLE users (id serial PRIMARY KEY, email text UNIQUE NOT NULL, password_hash text NOT NULL);
===
SELECT id, token_count FROM usage WHERE key = 'daily' ORDER BY created_at DESC LIMIT 10;
===
ALTER TABLE orders ADD CONSTRAINT fk_user FOREIGN KEY (user_id) REFERENCES users (id);
===
UPDATE settings SET value = 'dark' WHERE key = 'theme';
===
.token-list > li { color: #1a2b3c; padding: 0 4px; background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAA); }
===
.sk-folding-cube .sk-cube-parent:before { animation: sk-foldCubeAngle 2.4s infinite linear both; }
===
:root { --key-color: #ff00aa; --token-size: 12px; }
"""
SHELL = """
git log --oneline -n 20 -- src/app/main.py
git diff HEAD~1 -- tests/test_token.py
git commit -m "auth: refresh the token before it expires"
git commit -m 'fix: password reset mail'
git checkout -b feature/api-key-rotation
git clone git@github.com:acme/shop.git
git clone https://ann@bitbucket.org/acme/shop.git
git clone https://github.com/acme/shop.git
git config user.name "Ann Example"
docker run -u 1000:1000 -p 8080:80 -v data:/data nginx:1.27
docker run --rm -e DB_PASSWORD=$DB_PASSWORD app
docker pull nginx@sha256:SHA256
docker login registry.example.com
echo "$TOKEN" | docker login -u ann --password-stdin
mysql -u root -p shop
psql -h db -p 5432 -U app -c 'select 1'
PGPASSWORD=$PGPASSWORD psql -h db
export TOKEN=$(cat /run/secrets/token)
export API_KEY=${API_KEY:?missing}
curl -s -H "Authorization: Bearer $TOKEN" https://api.example.com/v1/items
curl -u "$USER:$PASSWORD" https://api.example.com
curl -X POST https://api.example.com/v1/items -d '{"name": "chair", "count": 3}'
kubectl get secret db -o yaml
kubectl -n prod get pods -l app=shop,tier=web
ssh -i ~/.ssh/id_ed25519 deploy@10.0.0.5 uptime
ssh-keygen -t ed25519 -C ann@example.com -f key
tar -czf backup-2026-01-02.tar.gz src docs
find . -name '*.key' -newer Makefile -print
grep -rn "password" src --include=*.py
rg -n 'api_key|token' --type py
sed -i 's/token_limit/max_tokens/' config.py
pytest -q -k "token or password" tests/core
pip install tokenizers==0.19.1 python-dotenv
npm install --save-dev eslint-plugin-security
npm run build -- --mode production
make -j4 PREFIX=/usr/local install
aws s3 cp s3://bucket/path/to/file.txt . --region eu-west-1
aws sts get-caller-identity --profile prod
gh auth status
gh pr create --title "Add token refresh" --body "Closes #12"
vault kv get secret/app
openssl x509 -in cert.pem -noout -dates
openssl rand -hex 32
sudo systemctl restart postgresql
ls -la ~/.aws/credentials
cat .env.example
chmod 600 ~/.netrc
PWD=/home/ann/project OLDPWD=/tmp env
cd "$PWD" && ls
python -m json.tool < data.json
uvicorn app:app --host 0.0.0.0 --port 8000
terraform plan -var-file=prod.tfvars
ansible-playbook -i hosts site.yml --ask-vault-pass
gpg --list-secret-keys --keyid-format long
tool --token-file /run/secrets/token --password-stdin
sha256sum dist/app.whl && echo SHA256  dist/app.whl
"""
LINES = """
commit SHA1
index 83db48f..bf2a8c1 100644
Merge: 83db48fe bf2a8c1d
SHA256
UUID
trace 4bf92f3577b34da6a3ce929d0e0e4736 span 00f067aa0ba902b7
sha256:SHA256
"integrity": "SHA512"
integrity SHA512
resolved "https://registry.example.org/lodash/-/lodash-4.17.21.tgz#SHA1"
lodash@^4.17.21:
pytest==8.3.2 --hash=sha256:SHA256
checksum = "SHA256"
github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx1Y2t5IG51bWJlcnMgYXJlIDcgYW5kIDIz ann@example.com
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7
/9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwg
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
src/sayso/core/redaction/token_formats.py
/home/ann/projects/shop/src/components/PasswordInput.tsx
C:\\Users\\ann\\AppData\\Local\\Temp\\token-cache.json
node_modules/@babel/core/lib/transformation/normalize-file.js
https://example.com/docs/authentication/tokens#refresh
https://example.com/search?q=password+policy&page=2
https://medium.example/@ann/why-tokens-expire-3f2a9c1b
https://cdn.example.com/react@18.2.0/umd/react.production.min.js
https://user.example.com:8443/path?next=/home&lang=en
http://localhost:3000/users/@me
postgres://db.example:5432/shop
postgres://app@db/shop
redis://localhost:6379/0
mongodb://localhost:27017/shop
s3://bucket/2026/01/02/part-00000-of-00010.parquet
arn:aws:iam::123456789012:role/deploy
ann@example.com, bob@example.org
2026-01-02T03:04:05.678Z INFO auth: user ann signed in, 3 tokens left
ERROR main.py:42:7: expected token ')' but got 'EOF'
main.c:12:5:error:expected
max_tokens: 200
total_tokens=1523 prompt_tokens=1200 completion_tokens=323
primary_key: id
sort_key: created_at
public_key: id_ed25519.pub
token_type: bearer
tokenizer: bert-base-uncased
password_policy: strict
password: ${DB_PASSWORD}
password: "{{ vault_db_password }}"
api_key: <your-api-key>
token: null
secret: false
secretName: db-credentials
- name: DB_HOST
key: value
keywords: [token, secret, password]
auth: none
auth_type: oauth2
session: 30m
cookie_policy: lax
author: Ann Example <ann@example.com>
pin: 13
pass: 12, fail: 0
tests: 120 passed, 3 failed
Content-Type: application/json; charset=utf-8
Accept-Language: de-DE,de;q=0.9,en;q=0.8
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
The password policy requires at least 12 characters.
Tokens are counted by the tokenizer, not by words.
Please rotate the API keys every 90 days.
Password: must have at least 12 characters
Your token is invalid or has expired.
Forgot password? Enter the address of your account.
Basic authentication is disabled; use bearer tokens instead.
He has a basic understanding of authentication.
The secretary keeps the key to the office.
Secrets: none found
Authorization is required for this page.
A token bucket limits the rate of requests.
The passkey prompt appears after sign-in.
I passed the exam at the first pass.
We press the Enter key: then the dialog closes.
Fix typo in authorization docs
feat(token): add refresh
Note: the key = value lines are sorted.
Keyboard shortcuts: ctrl+k opens search
Meet at 10:30; bring your passport and a pin.
1,234 tokens used of 10,000
Session 3: authentication and tokens
Ann's patience is the key to success
@@ -12,7 +12,7 @@ def connect(host: str, password: str) -> Connection:
-    timeout = 30
+    timeout = 60
-        token = None
+        token = self.refresh_token()
-  "version": "1.2.3",
export default defineConfig({ plugins: [react()], server: { port: 5173 } })
{"type": "object", "properties": {"password": {"type": "string", "minLength": 12}}}
{"id": 1, "name": "chair", "price": 49.9, "tags": ["oak", "new"]}
"""
DATA: list[Any] = [
    {"max_tokens": 200, "temperature": 0.5}, {"tokens": 1523}, {"token_count": 12}, {"total_tokens": 99},
    {"tokenizer": "bert-base-uncased"}, {"primary_key": "id"}, {"foreign_key": "user_id"}, {"sort_key": "created_at"},
    {"cache_key": "user:12:page:3"}, {"key": "Enter"}, {"key": "PROJ-123"}, {"key": "uploads/2026/photo.png"},
    {"keyboard": "qwerty"}, {"keywords": ["a", "b"]}, {"author": "Ann"}, {"authors": ["Ann", "Bob"]},
    {"hotkey": "ctrl+k"},
    {"password_policy": "strict"}, {"secret_name": "prod/db"}, {"token_type": "bearer"}, {"auth_method": "oauth"},
    {"private_key_path": "/etc/ssl/key.pem"}, {"password_file": "/run/secrets/pw"}, {"public_key": "ssh-ed25519 AAAA"},
    {"next_page_token": "CAUQAA"}, {"eos_token": "</s>"}, {"pin": 13}, {"pinned": True}, {"password": None},
    {"show_password": True}, {"token_limit": 4096}, {"pattern": "a.*b"}, {"path": "a/b"}, {"passed": 12},
    {"compass": "north"}, {"session_id": _UUID}, {"id": _UUID, "etag": _SHA256}, {"commit": _SHA1}, {"sha": _SHA256},
    {"name": "DB_HOST", "value": "db.example"}, {"key": "theme", "value": "dark"}, {"name": "chair", "value": 12},
    {"selector": "#search", "text": "blue shoes"}, {"element": "Search box", "text": "token economics"},
    ["git", "commit", "-m", "add a token"], ["docker", "run", "-p", "8080:80", "-u", "1000:1000", "nginx"],
    ["--verbose", "--output", "x.txt"], ["email", "name"], {"columns": ["id", "email", "password_hash"]},
    {"headers": [["Accept", "*/*"], ["Content-Type", "application/json"]]}, {"issue_key": "SHOP-12"},
    {"idempotency_key": "order-2026-01-02-00017"}, {"s3_key": "reports/2026/01.csv"}, {"key_id": "k-12"},
    {"secret": False}, {"code": "print('hello')"}, {"country_code": "DE"}, {"signature": "def f(x: int) -> str"},
    {"salt": "sea"}, {"seed": 42}, {"bearer": None}, {"amount": 123456, "to": "bob"}, {"digest": _SHA256},
    {"credentials_file": "~/.aws/credentials"}, {"cookie_name": "theme"}, {"grant_type": "client_credentials"},
    "permissions:\n  id-token: write\n  contents: read", "ok  \tgithub.com/acme/app/token\t0.012s",
    "pk_test_publishable keys are public", "aws ssm put-parameter --name /a/b --type String --value eu-central-1",
    "net use * /delete", "poetry config virtualenvs.in-project true", "the pw is set by the installer",
    "the requirepass option of redis", "cargo login asks for a token", "mc alias list",
]  # fmt: skip


def _filled(text: str) -> str:
    for name, value in (("SHA512", _SHA512), ("SHA256", _SHA256), ("SHA1", _SHA1), ("UUID", _UUID)):
        text = text.replace(name, value)
    return text


HARMLESS: list[Any] = [
    *({"content": each.strip("\n")} for each in CODE.split("===\n")),
    *({"command": _filled(each)} for each in SHELL.strip().splitlines()),
    *({"text": _filled(each)} for each in LINES.strip().splitlines()),
    *DATA,
]
