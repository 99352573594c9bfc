# SPDX-License-Identifier: Apache-2.0
"""A mutation of the cluster, described before it is made."""

from dataclasses import dataclass
from typing import Any, Literal

Verb = Literal["create", "apply", "patch", "replace", "delete", "evict"]


@dataclass(frozen=True, kw_only=True)
class ObjectRef:
    """An API object."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None

    @property
    def label(self) -> str:
        """Return ``NetworkPolicy calico-demo-1/allow-linux-client (projectcalico.org/v3)``."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name} ({self.api_version})"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A mutation of one object, with its reason. Every write to the cluster is a Change."""

    verb: Verb
    target: ObjectRef
    why: str
    body: dict[str, Any] | None = None
    subresource: str = ""
    """``status``: the change applies the object's status."""
    cluster_scoped_or_foreign: bool = False
    """The change affects something outside the run's own namespaces, so it is guarded and
    journalled."""

    @property
    def label(self) -> str:
        """Return ``create NetworkPolicy demo-1/allow-client (projectcalico.org/v3): only
        linux-client may enter``.
        """
        return f"{self.verb} {self.target.label}: {self.why}"


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """The result of restoring the changes of the run's processes."""

    lines: tuple[str, ...] = ()
    """One line for each change."""
    problem: str = ""
    """Why the cluster may not be as before, in one line; empty: it is as before."""
