# SPDX-License-Identifier: Apache-2.0
"""The interface of a kind's rules, which the verbs call; the base class has the defaults."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_PORT_NAME = re.compile(r"^[-a-z0-9]+$")
_DNS_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def fill(target: Obj, /, **defaults: Any) -> None:
    """Set the fields that are missing."""
    for name, value in defaults.items():
        target.setdefault(name, value)


def subdomain_problem(name: str) -> str | None:
    """Return the problem of a DNS-1123 subdomain; None if it is valid."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return None if _SUBDOMAIN.match(name) else SUBDOMAIN_RULE


def label_problem(name: str) -> str | None:
    """Return the problem of a DNS-1123 label; None if it is valid."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return None if _LABEL.match(name) else LABEL_RULE


def dns_1035_problem(name: str) -> str | None:
    """Return the problem of a DNS-1035 label (names of Services); None if it is valid."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return None if _DNS_1035.match(name) else DNS_1035_RULE


def port_problems(port: Any, at: str) -> Iterator[Cause]:
    """Yield what is wrong with a port that is a number or a name (``ValidatePortNumOrName`` in pkg/apis/core)."""
    if not isinstance(port, str):
        if not 1 <= port <= 65535:
            yield invalid_value(at, port, "must be between 1 and 65535, inclusive")
        return
    wrong = {
        "must be no more than 15 characters": len(port) > 15,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": not _PORT_NAME.match(
            port
        ),
        "must contain at least one letter (a-z)": not re.search("[a-z]", port),
        "must not contain consecutive hyphens": "--" in port,
        "must not begin or end with a hyphen": port.startswith("-") or port.endswith("-"),
    }
    yield from (invalid_value(at, port, problem) for problem, is_so in wrong.items() if is_so)


def path_segment_problem(name: str) -> str | None:
    """Return the problem of a name that only has to fit into a path (RBAC); None if it is valid."""
    if name in {".", ".."}:
        return f"may not be '{name}'"
    return "may not contain '/' or '%'" if "/" in name or "%" in name else None


def with_times(conditions: list[Obj], *names: str) -> list[Obj]:
    """Return conditions in which the fields ``names`` are null if unset, as Go writes times."""
    return [{**dict.fromkeys(names), **condition} for condition in conditions]


class Strategy:
    """The rules of a kind, called by the verbs.

    ``obj`` is always a private copy that may be changed; ``old`` is shared and may not be changed.
    """

    keeps_status_on_create = False
    """The status in a create request is stored (nodes register themselves with a status)."""
    counts_generations = True
    """The server increases metadata.generation when the object changes."""
    generation_without_spec = False
    """The server increases metadata.generation although the kind has no spec."""
    unconditional_update = True
    """A replace without resourceVersion overwrites the present object."""
    returns_deleted = False
    """The answer to a delete is the object and not a Status."""
    ends_in_two_steps = False
    """A deletion without a grace period first marks the object and then removes it, as for pods."""
    protected: frozenset[str] = frozenset()
    """Names that may not be deleted."""
    checks_dry_runs = True
    """Values are checked in a dry run as well."""

    def name_problem(self, name: str) -> str | None:
        """Return the problem of an object's name; None if it is valid."""
        return subdomain_problem(name)

    def default(self, obj: Obj) -> None:
        """Set the real server's defaults; fields that are set must not change."""

    def prepare_create(self, obj: Obj) -> None:
        """Admit and complete a new object; raise ApiError to refuse it."""

    def admit(self, obj: Obj) -> None:
        """Raise ApiError if a policy of the cluster forbids a new, valid object."""

    def after_create(self, obj: Obj) -> None:
        """React to a new object that is now in the store."""

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        """Admit and complete a changed object; raise ApiError to refuse it."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        """Return the problems of an object's values (``old``: the object that it replaces)."""
        return ()

    def warnings(self, obj: Obj) -> Iterable[str]:
        """Return warnings for the user about an accepted object."""
        return ()

    def grace_seconds(self, obj: Obj, requested: int | None) -> int:
        """Return how many seconds a deletion waits for the object to end; return 0 if the object is
        deleted at once."""
        return 0

    def check_delete(self, obj: Obj) -> None:
        """Raise ApiError if an object may not be deleted. Not called in a dry run."""

    def committed(self, obj: Obj | None, old: Obj | None) -> None:
        """React to a change that is now in the store (``obj`` None: deleted)."""
