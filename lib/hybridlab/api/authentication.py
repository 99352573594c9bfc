# SPDX-License-Identifier: Apache-2.0
"""The users of bearer tokens: a fixed table, and the tokens that TokenRequest issues.

Tokens are random and opaque. A request with an unknown or expired token, or without a token, gets
a 401: anonymous requests are not accepted.
"""

import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hybridlab.api.contract import Obj
from hybridlab.api.errors import invalid, invalid_value, not_found, unauthorized
from hybridlab.api.requests import AUTHENTICATED, User
from hybridlab.api.store import Store

DEFAULT_SECONDS = 3600
MINIMUM_SECONDS = 600
"""The shortest life of a requested token, which is the real server's minimum."""


AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""The audience of tokens for the API."""
_BOUND = {"Pod": "pods", "Secret": "secrets"}
"""Kinds that a token can be bound to; only the object's existence is checked."""
ACCOUNT = "system:serviceaccount:"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every ServiceAccount of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


@dataclass(frozen=True)
class Token:
    """The user of a token, and its expiry."""

    user: str
    groups: tuple[str, ...] = ()
    expires_at: float | None = None
    """The Unix time, in seconds, at which the token expires; None: never."""
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Authenticator:
    """Turns bearer tokens into users."""

    def __init__(
        self, tokens: Mapping[str, Token], store: Store, clock: Callable[[], float] = time.time
    ) -> None:
        self._tokens: dict[str, Token] = dict(tokens)
        self._store = store
        self._clock = clock
        self._accounts: dict[str, tuple[str, str, str]] = {}
        """The namespace, name and uid of the service account to which each token belongs."""
        self._users: dict[str, User] = {}
        self._audiences: dict[str, tuple[str, ...]] = {}
        """The audiences of each issued token; tokens of the fixed table are for the API."""

    def add(self, token: str, meaning: Token) -> None:
        self._tokens[token] = meaning

    def authenticate(self, authorization: str) -> User:
        """Return the user of an Authorization header; raise ApiError 401 unless it holds a valid
        token."""
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            raise unauthorized()
        user = self.user_of(token.strip())
        if user is None or not self.audiences(token.strip(), (AUDIENCE,)):
            raise unauthorized()
        return user

    def audiences(self, token: str, wanted: Sequence[str]) -> list[str]:
        return [
            audience for audience in wanted if audience in self._audiences.get(token, (AUDIENCE,))
        ]

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None if the token is unknown or expired, or if its account
        no longer exists."""
        meaning = self._tokens.get(token)
        if meaning is None or (
            meaning.expires_at is not None and self._clock() >= meaning.expires_at
        ):
            return None
        account = self._accounts.get(token)
        if account is not None:
            found = self._store.bucket("serviceaccounts").get(account[:2])
            if found is None or found["metadata"]["uid"] != account[2]:
                return None
        user = self._users.get(token)
        if user is None:
            groups = tuple(dict.fromkeys((*meaning.groups, AUTHENTICATED)))
            user = self._users[token] = User(meaning.user, groups, meaning.uid, meaning.extra)
        return user

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Answer a TokenRequest for a service account."""
        spec = request.get("spec") or {}
        seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
        if seconds < MINIMUM_SECONDS:
            cause = invalid_value(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
            raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        meta = account["metadata"]
        bound = spec.get("boundObjectRef") or {}
        place = (meta["namespace"], bound.get("name", ""))
        if (
            bound.get("kind") in _BOUND
            and self._store.bucket(_BOUND[bound["kind"]]).get(place) is None
        ):
            raise not_found(_BOUND[bound["kind"]], "", bound.get("name", ""))
        token = secrets.token_urlsafe(32)
        expires = self._clock() + seconds
        name = f"{ACCOUNT}{meta['namespace']}:{meta['name']}"
        groups = account_groups(meta["namespace"])
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={uuid.uuid4()}",)}
        self._tokens[token] = Token(name, groups, expires, meta["uid"], extra)
        self._accounts[token] = (meta["namespace"], meta["name"], meta["uid"])
        until = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        spec = {"boundObjectRef": None, **spec, "expirationSeconds": seconds}
        spec["audiences"] = spec.get("audiences") or [AUDIENCE]
        self._audiences[token] = tuple(spec["audiences"])
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": str(uuid.uuid4()),
                "creationTimestamp": datetime.fromtimestamp(self._clock(), UTC).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"
                ),
            },
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": until},
        }
