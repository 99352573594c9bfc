# SPDX-License-Identifier: Apache-2.0
"""Impersonation (``kubectl --as``): the headers that request it, and the rights that it needs.

The rules are those of ``pkg/endpoints/filters/impersonation.go`` of k8s.io/apiserver: every
requested part (user or ServiceAccount, groups, uid, extra) needs the verb ``impersonate`` on its
own resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from hybridlab.api.authentication import ACCOUNT, account_groups
from hybridlab.api.authorization import Attributes, Authorizer
from hybridlab.api.errors import PlainError
from hybridlab.api.requests import AUTHENTICATED, User

_GROUP: Final = "authentication.k8s.io"
_EXTRA: Final = "impersonate-extra-"
_ANONYMOUS: Final = "system:anonymous"
_UNAUTHENTICATED: Final = "system:unauthenticated"


def acting_as(
    headers: Iterable[tuple[str, str]], user: User, authorizer: Authorizer, path: str
) -> User:
    """Return the user that ``user`` asks to act as; ``user`` if no header requests another.

    Raise ApiError 403 unless RBAC lets ``user`` impersonate every part, and PlainError 500 if the
    headers request groups, a uid or extras but no user.
    """
    found: dict[str, list[str]] = {}
    for key, value in headers:
        found.setdefault(key.lower(), []).append(value)
    name = found.get("impersonate-user", [""])[0]
    uid = found.get("impersonate-uid", [""])[0]
    groups = tuple(found.get("impersonate-group", ()))
    prefix = len(_EXTRA)
    extra = {unquote(key[prefix:]): tuple(found[key]) for key in found if key.startswith(_EXTRA)}
    parts = _parts(groups, extra, uid)
    if not name:
        if parts:
            raise PlainError(500, f'Internal Server Error: "{path}": {_without_user(parts)}\n')
        return user
    account = _account(name)
    first = Attributes("impersonate", "", "users", "", name)
    if account is not None:
        first = Attributes("impersonate", "", "serviceaccounts", *account)
    for asked in (first, *parts):
        authorizer.require(user, asked)
    if account is not None and not groups:
        groups = account_groups(account[0])
    if name == _ANONYMOUS:
        groups = tuple(dict.fromkeys((*groups, _UNAUTHENTICATED)))
    elif not {AUTHENTICATED, _UNAUTHENTICATED}.intersection(groups):
        groups = (*groups, AUTHENTICATED)
    return User(name, groups, uid, extra)


def _parts(groups: Iterable[str], extra: dict[str, tuple[str, ...]], uid: str) -> list[Attributes]:
    """Return the rights that impersonation needs besides the right on the user."""
    parts = [Attributes("impersonate", "", "groups", "", group) for group in groups]
    for key, values in extra.items():
        parts += [
            Attributes("impersonate", _GROUP, f"userextras/{key}", "", value) for value in values
        ]
    if uid:
        parts.append(Attributes("impersonate", _GROUP, "uids", "", uid))
    return parts


def _without_user(parts: Iterable[Attributes]) -> str:
    """Return the error for a request without a user, with the parts as Go prints a list of
    ObjectReferences.
    """
    kinds = {"groups": "Group", "uids": "UID", "userextras": "UserExtra"}
    listed = []
    for part in parts:
        resource, _, key = part.resource.partition("/")
        version = f"{_GROUP}/v1" if part.group else ""
        listed.append(f"{{{kinds[resource]}  {part.name}  {version}  {key}}}")
    return f"requested [{' '.join(listed)}] without impersonating a user"


def _account(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount to which a user name belongs, or None."""
    namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
    is_account = user.startswith(ACCOUNT) and namespace and name and ":" not in name
    return (namespace, name) if is_account else None
