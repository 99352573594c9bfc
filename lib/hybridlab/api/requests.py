# SPDX-License-Identifier: Apache-2.0
"""The user and options of a request: the arguments of every verb in addition to the object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hybridlab.api.resources import Resource

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class WriteOptions:
    """Options of a write, and the warnings that the write collects."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: Literal["Ignore", "Warn", "Strict"] = "Strict"
    force: bool = False
    """Server-side apply takes over fields that other managers own."""
    tracked: bool = True
    """Keep managedFields (components in the process need none)."""
    warnings: list[str] = field(default_factory=list)
    user: User | None = None
    """The writer; None: a component of the lab itself, which may grant any rights."""


@dataclass(frozen=True)
class DeleteOptions:
    """Options of a delete."""

    grace_period_seconds: int | None = None
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


class Target(NamedTuple):
    """The resource, namespace, name and subresource to which a request applies."""

    resource: Resource
    namespace: str = ""
    """The namespace; empty for cluster-scoped resources, and for lists over all namespaces."""
    name: str = ""
    subresource: str = ""
