"""Who a bearer token belongs to: a fixed table, and the tokens that TokenRequest hands out.

Tokens are random and opaque; an unknown or expired one is 401, as is none at all (anonymous requests are not accepted).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from hybridlab.api.contract import Obj
from hybridlab.api.errors import bad_request, invalid, invalid_value, unauthorized
from hybridlab.api.requests import AUTHENTICATED, User
from hybridlab.api.store import Store

DEFAULT_SECONDS = 3600
MINIMUM_SECONDS = 600
"""Shortest life of a requested token, as the real server demands."""


@dataclass(frozen=True)
class Token:
    """Whom a token stands for and until when."""

    user: str
    groups: tuple[str, ...] = ()
    expires_at: float | None = None
    """Unix time, seconds; None: never."""
    uid: str = ""


class Authenticator:
    """Turns bearer tokens into users."""

    def __init__(self, tokens: Mapping[str, Token], store: Store, clock: Callable[[], float] = time.time) -> None:
        self._tokens: dict[str, Token] = dict(tokens)
        self._store = store
        self._clock = clock
        self._accounts: dict[str, tuple[str, str, str]] = {}
        """Tokens of service accounts: namespace, name and uid of the account."""
        self._users: dict[str, User] = {}

    def add(self, token: str, meaning: Token) -> None:
        """Accept one more token."""
        self._tokens[token] = meaning

    def authenticate(self, authorization: str) -> User:
        """Return the user of an Authorization header; ApiError 401 unless it holds a good token."""
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            raise unauthorized()
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None when it is unknown, expired, or its account is gone."""
        meaning = self._tokens.get(token)
        if meaning is None or (meaning.expires_at is not None and self._clock() >= meaning.expires_at):
            return None
        account = self._accounts.get(token)
        if account is not None:
            found = self._store.bucket("serviceaccounts").get(account[:2])
            if found is None or found["metadata"]["uid"] != account[2]:
                return None
        user = self._users.get(token)
        if user is None:
            groups = tuple(dict.fromkeys((*meaning.groups, AUTHENTICATED)))
            user = self._users[token] = User(meaning.user, groups, meaning.uid)
        return user

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Answer a TokenRequest for a service account."""
        spec = request.get("spec")
        if not isinstance(spec, dict):
            raise bad_request("a TokenRequest needs a spec")
        seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
        if seconds < MINIMUM_SECONDS:
            cause = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            raise invalid("TokenRequest", "authentication.k8s.io", account["metadata"]["name"], [cause])
        meta = account["metadata"]
        token = secrets.token_urlsafe(32)
        expires = self._clock() + seconds
        name = f"system:serviceaccount:{meta['namespace']}:{meta['name']}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{meta['namespace']}")
        self._tokens[token] = Token(name, groups, expires, meta["uid"])
        self._accounts[token] = (meta["namespace"], meta["name"], meta["uid"])
        until = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        spec = {**spec, "expirationSeconds": seconds}
        spec.setdefault("audiences", ["https://kubernetes.default.svc.cluster.local"])
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "creationTimestamp": datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": until},
        }
