# SPDX-License-Identifier: Apache-2.0
"""Errors of requests: refusals by the API server, and requests that never reached it.  Neither is
evidence about the cluster's conformance."""

from __future__ import annotations

import json
from typing import Any

from conformance.errors import SuiteError
from conformance.model.counted import counted

PASSING = (429, 500, 502, 503, 504)
"""Statuses of servers that are overloaded, restarting or behind a gateway in trouble."""


class ApiRefused(SuiteError):
    """A request that the API server answered with an error; ``status`` is its ``Status`` object
    if it sent one."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        request: str,
        status: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{request}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.request = request
        self.status: dict[str, Any] = status or {}
        self.retry_after = 0.0
        """Seconds for which the server asks clients to wait."""
        self.tries = 1
        """The number of attempts. An earlier attempt may have changed something on the server
        before it failed."""

    @classmethod
    def from_response(cls, code: int, phrase: str, body: bytes, request: str) -> ApiRefused:
        """Return the error for a response: its ``Status`` object if the body has one, else the
        first line of the body."""
        try:
            status = json.loads(body)
        except (ValueError, RecursionError):
            status = None
        if isinstance(status, dict) and status.get("kind") == "Status":
            return cls(
                code,
                status.get("reason") or phrase,
                status.get("message") or phrase,
                request,
                status,
            )
        line = body.decode(errors="replace").strip().splitlines()
        return cls(code, phrase, line[0][:300] if line else "no body", request)

    def repeated(
        self, tries: int, seconds: float, kind: type[ApiRefused] | None = None
    ) -> ApiRefused:
        """Return this refusal as the last of several answers to a request; ``kind``: the class to
        use."""
        again = (
            kind(self.code, self.reason, self.message, self.request, self.status) if kind else self
        )
        again.tries = tries
        if tries > 1:
            again.args = (f"{self} ({counted(tries, 'try', 'tries')} in {seconds:.1f} s)",)
        return again

    @property
    def explained(self) -> str:
        """Return the message with the causes that the server reports, such as the name of a
        PodDisruptionBudget.
        """
        causes = (self.status.get("details") or {}).get("causes") or []
        return " ".join(
            [self.message, *(str(cause["message"]) for cause in causes if cause.get("message"))]
        )

    @property
    def passing(self) -> bool:
        """Return whether the same request may soon succeed: there were too many requests, or the
        server is in trouble."""
        return self.code in PASSING

    @property
    def forbidden(self) -> bool:
        """Return whether the refusal is 403: the user lacks the right."""
        return self.code == 403

    @property
    def not_found(self) -> bool:
        """Return whether the refusal is 404: no such object, or no such resource."""
        return self.code == 404

    @property
    def already_exists(self) -> bool:
        """Return whether the refusal is a 409 to a create: the object exists already."""
        return self.code == 409 and self.reason == "AlreadyExists"


class NoApiServer(ApiRefused):
    """An answer that no Kubernetes API server gives: a gateway's page or redirection.  It counts
    as 502 Bad Gateway."""

    def __init__(self, what: str, request: str) -> None:
        super().__init__(
            502, "BadGateway", f"not an answer from a Kubernetes API server ({what})", request
        )
        self.args = (f"{request}: {self.message}",)


class ApiUnreachable(SuiteError):
    """No answer from the API server in time; ``last`` is the result of the last of ``tries``
    requests.
    """

    def __init__(self, request: str, tries: int, seconds: float, last: BaseException | str) -> None:
        super().__init__(
            f"{request}: no answer from the API server after {tries} {'try' if tries == 1 else 'tries'} "
            f"in {seconds:.1f} s: {describe(last)}"
        )
        self.last = last


def describe(error: BaseException | str) -> str:
    """Return one line about the error, without object addresses and nested representations."""
    if isinstance(error, str):
        return error
    if error.args and isinstance(error.args[-1], BaseException):  # ("Connection aborted.", ...)
        return describe(error.args[-1])
    text = " ".join(str(error).split())
    for mark in (
        "[Errno",
        "[SSL",
    ):  # the operating system's own text comes last in the text of urllib3
        if mark in text:
            return text[text.index(mark) :].rstrip(")").strip()
    if ">: " in text:
        text = text.rsplit(">: ", 1)[1]
    return text or type(error).__name__
