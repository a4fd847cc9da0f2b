"""A small OpenID provider on a real port: discovery, keys, a page to sign in on, codes that work once, PKCE."""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import threading
import time
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "sayso-hub", "a secret of the hub"
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "k1"}) for _ in range(2))
ANN = {"sub": "1", "email": "ann@example.org", "email_verified": True, "teams": ["ops", "a b"]}
PAGE = "<!doctype html><title>Accounts</title><form method=post><button>Continue as Ann</button></form>"


class Accounts:
    """The provider; a test may let it lie."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, str]] = {}
        self._listening = socket.create_server(("127.0.0.1", 0))
        # By this name it is another site than the hub, which is called by its address.
        self.url = f"http://localhost:{self._listening.getsockname()[1]}"
        routes = [
            Route("/.well-known/openid-configuration", self._discovery),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize, methods=["GET", "POST"]),
            Route("/token", self._token, methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._listening]))
        self.be_honest()

    def be_honest(self) -> None:
        """Say what is true again."""
        self.claims: dict[str, Any] = dict(ANN)
        self.facts: dict[str, Any] = {}
        self.key: Any = KEY
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "k1"}
        self.token: str | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)

    def _discovery(self, _: Request) -> Response:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        addresses = {name: f"{self.url}/{end}" for name, end in ends.items()}
        return JSONResponse({"issuer": self.url, **addresses, **self.facts})

    def _keys(self, _: Request) -> Response:
        return JSONResponse({"keys": [KEY.as_dict(private=False)]})

    def _authorize(self, request: Request) -> Response:
        """Show a page; its button leads back with a code."""
        asked = dict(request.query_params)
        assert (asked["client_id"], asked["response_type"], asked["code_challenge_method"]) == (CLIENT, "code", "S256")
        if request.method == "GET":
            return HTMLResponse(PAGE)
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 303)

    async def _token(self, request: Request) -> Response:
        brought = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self._codes.pop(brought["code"], None)
        basic = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        digest = hashlib.sha256(brought["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or request.headers["authorization"] != basic or asked["code_challenge"] != proof:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.claims}
        told = jwt.encode(self.header, claims, self.key) if self.token is None else self.token
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": told})
