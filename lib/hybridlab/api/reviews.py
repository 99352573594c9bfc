# SPDX-License-Identifier: Apache-2.0
"""Questions about rights and identities: access reviews, rules reviews, token reviews, ``kubectl auth whoami``."""

from hybridlab.api.authentication import AUDIENCE, Authenticator
from hybridlab.api.authorization import Attributes, Authorizer
from hybridlab.api.contract import ApiError, Obj
from hybridlab.api.errors import Cause, bad_request, invalid, invalid_value
from hybridlab.api.lifecycle import timestamp
from hybridlab.api.requests import User


class Reviews:
    """Answers reviews, which are created and never stored."""

    def __init__(self, authorizer: Authorizer, authenticator: Authenticator) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator

    def answer(self, kind: str, body: Obj, user: User, namespace: str) -> Obj:
        """Return the review with its status filled in."""
        spec = body.get("spec") or {}
        if kind == "SelfSubjectReview":
            status: Obj = {"userInfo": _user_info(user)}
            return {**body, "metadata": {"creationTimestamp": timestamp()}, "status": status}
        if kind == "TokenReview":
            return {**body, "status": self._token(spec)}
        if kind == "SelfSubjectRulesReview":
            return {**body, "spec": {}, "status": self._rules(user, spec)}
        if kind == "SelfSubjectAccessReview":
            return {**body, "status": self._access(user, spec)}
        who = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        if not who.name and not who.groups:
            raise _invalid(
                invalid_value("spec.user", "", "at least one of user or group must be specified")
            )
        if kind == "LocalSubjectAccessReview":
            inside = (spec.get("resourceAttributes") or {}).get("namespace", "")
            if inside != namespace:
                cause = invalid_value(
                    "spec.resourceAttributes.namespace", inside, "must match metadata.namespace"
                )
                raise _invalid(cause)
        return {**body, "status": self._access(who, spec)}

    def _access(self, user: User, spec: Obj) -> Obj:
        about = spec.get("resourceAttributes")
        path = spec.get("nonResourceAttributes")
        if (about is None) == (path is None):
            detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise _invalid(invalid_value("spec.resourceAttributes", None, detail))
        if about is None:
            path = path or {}
            asked = Attributes(path.get("verb", ""), path=path.get("path", ""))
        else:
            resource = about.get("resource", "")
            if about.get("subresource"):
                resource += f"/{about['subresource']}"
            asked = Attributes(
                about.get("verb", ""),
                about.get("group", ""),
                resource,
                about.get("namespace", ""),
                about.get("name", ""),
            )
        why = self._authorizer.allows(user, asked)
        if why is None:
            return {"allowed": False}
        return {"allowed": True, "reason": why} if why else {"allowed": True}

    def _rules(self, user: User, spec: Obj) -> Obj:
        namespace = spec.get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.rules(user, namespace)
        return {
            "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in rules
                if "nonResourceURLs" in rule
            ],
            "incomplete": False,
        }

    def _token(self, spec: Obj) -> Obj:
        token = spec.get("token", "")
        user = self._authenticator.user_of(token)
        audiences = self._authenticator.audiences(token, spec.get("audiences") or (AUDIENCE,))
        if user is None or not audiences:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user_info(user), "audiences": audiences}


def _invalid(cause: Cause) -> ApiError:
    """Return the error that refuses a review. It names no kind, as on a real server."""
    return invalid("", "authorization.k8s.io", "", [cause])


def _user_info(user: User) -> Obj:
    info: Obj = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
