# SPDX-License-Identifier: Apache-2.0
"""Brings worlds into force. A world is a set of policies, shipped or named by the user, that
selects the pods called seats."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from conformance import product
from conformance.enforcement.applied_objects import GROUP, AppliedObjects
from conformance.enforcement.seats import Seats
from conformance.errors import SuiteError
from conformance.kube import guard, manifest
from conformance.kube.changes import reference
from conformance.kube.client import Obj
from conformance.kube.guard import GuardRefused
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.policy import worlds
from conformance.policy.worlds import World

FOLDER = product.root() / "suites" / "policy" / "worlds"
BY_NAME = ("kubernetes.io/metadata.name",)
"""The label by which a cluster-scoped policy of a world must select the world's own namespaces."""
FIRST = (guard.TIER, "NetworkSet", "Service")
LAST = guard.TIER
"""FIRST: kinds to which other objects refer, so they are applied first. LAST: the kind that is
removed last."""
AT_ONCE = 8
"""The maximum number of simultaneous writes: each waits for the API server, or for a calicoctl in a
pod."""


@dataclass(frozen=True)
class WorldFile:
    """A world and the file that describes it."""

    world: World
    path: Path

    @property
    def part(self) -> str:
        """Return the name of the part of claims that the world decides: ``world: order of
        policies``."""
        return f"{'edit' if self.world.then else 'world'}: {self.world.name.replace('-', ' ')}"

    @property
    def whole_cluster(self) -> bool:
        """Return whether the world has a cluster-scoped object, before or after its edit."""
        return any(
            not obj["metadata"].get("namespace") for stage in self._stages for obj in stage.objects
        )

    @property
    def labels_namespaces(self) -> bool:
        """Return whether the world gives its namespaces other labels than usual, before or after
        its edit."""
        return any(space in stage.relabelled for stage in self._stages for space in worlds.SPACES)

    @property
    def _stages(self) -> list[World]:
        return [self.world, self.world.edited()] if self.world.then else [self.world]

    @property
    def replay(self) -> str:
        """Return the command that runs the world again."""
        return product.replay("world", self.path)


def shipped(*, edits: bool) -> list[WorldFile]:
    """Return the worlds that the suite ships, or the shipped worlds with an edit, by name."""
    return worlds_in(FOLDER / "edits" if edits else FOLDER)


def worlds_in(path: Path) -> list[WorldFile]:
    """Return the worlds of a folder by name, or the world of a file. Raise UsageProblem."""
    return [read_world(file) for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]


@cache
def read_world(path: Path) -> WorldFile:
    """Read the world of a file. Raise UsageProblem."""
    return WorldFile(worlds.read(path.stem, manifest.read_one(path, "world")), path)


def unlimited(obj: Obj, namespaces: Sequence[str]) -> str:
    """Return the reason why an object of a world could select pods outside the world, or an empty
    string if it cannot."""
    meta = obj["metadata"]
    spec = obj.get("spec") or {}
    if meta.get("namespace"):
        return (
            ""
            if meta["namespace"] in namespaces
            else f"namespace {meta['namespace']} is not a namespace of the world"
        )
    if obj["kind"] not in guard.CALICO_GLOBAL and obj["kind"] != guard.TIER:
        return "a world may have no cluster-scoped object except policies and tiers"
    if not any(name in meta["name"] for name in namespaces):
        return (
            f"{meta['name']} may collide with another worker's object: its name must contain "
            f"${{a}} or ${{b}}"
        )
    if obj["kind"] == guard.TIER:
        return ""
    text = str(spec.get("namespaceSelector") or "")
    if guard.limits(text, BY_NAME, _World("", namespaces=tuple(namespaces))):
        return ""
    return f"namespaceSelector {text!r} does not name the world's own namespaces by {BY_NAME[0]}"


@dataclass(frozen=True)
class _World(Ownership):
    namespaces: tuple[str, ...] = ()

    def has_namespace(self, name: str | None) -> bool:
        """Return whether a namespace is one of the two namespaces of the world."""
        return name in self.namespaces


@dataclass
class Ground:
    """Brings worlds into force at the seats of a worker, one world at a time."""

    seats: Seats
    applied: AppliedObjects
    at: float = 0.0
    """The time when the newest change was accepted (``time.monotonic``)."""
    _labels: dict[ObjectRef, Mapping[str, str] | None] = field(default_factory=dict)
    """The labels of pods, namespaces and accounts, if they have ever been changed. None: the
    account is deleted."""

    def show(self, world: World) -> str:
        """Bring exactly this world's objects and labels into force; return the objects as YAML.

        Objects that exist already, unchanged, are left alone, so that an edit is one change. Raise
        GuardRefused, MissingCapability (Calico's objects cannot be written here), ApiRefused (the
        cluster refuses an object), EnvironmentBroken if a removed object stays.
        """
        spaces = {space: self.seats.namespaces[space] for space in worlds.SPACES}
        filled = world.filled(self.seats.seats, spaces)
        for obj in filled:
            if problem := unlimited(obj, list(spaces.values())):
                raise GuardRefused(
                    f"world {world.name}: {obj['kind']} {obj['metadata']['name']}: {problem}"
                )
        wanted = {reference(obj): obj for obj in filled}
        for last in (False, True):
            self._remove(self._applied_besides(wanted, last=last))
        new = [target for target, obj in wanted.items() if self.applied.objects.get(target) != obj]
        for first in (True, False):
            targets = [target for target in new if (target.kind in FIRST) is first]
            self._at_once(
                lambda target: self.applied.apply(target, wanted[target], "a world's policy"),
                targets,
            )
        self._relabel(world)
        self.at = time.monotonic()
        return manifest.dump(filled)

    def clear(self) -> None:
        """Remove a world and restore the labels. After an error, remove everything else that can be
        removed, then raise the first error."""
        errors: list[SuiteError] = []
        for last in (False, True):
            try:
                self._remove(self._applied_besides((), last=last))
            except SuiteError as error:
                errors.append(error)
        self._relabel(None)
        if errors:
            raise errors[0]

    def _applied_besides(self, wanted: Container[ObjectRef], *, last: bool) -> list[ObjectRef]:
        """Return the applied objects that are not in ``wanted``: with ``last``, only objects of the
        kind :data:`LAST`; otherwise, only objects of other kinds."""
        return [
            target
            for target in self.applied.objects
            if target not in wanted and (target.kind == LAST) is last
        ]

    def _remove(self, targets: Sequence[ObjectRef]) -> None:
        self._at_once(
            lambda target: self.applied.remove(
                target, "its world is over", wait=target.kind == LAST
            ),
            targets,
        )

    def _at_once(self, act: Callable[[ObjectRef], None], targets: Sequence[ObjectRef]) -> None:
        """Call ``act`` for all of these objects, several at a time. Once all calls have ended,
        raise the first error."""
        if any(target.api_version.startswith(GROUP) for target in targets):
            # This raises once if Calico's objects cannot be written; the threads reuse its result.
            self.applied.calico()
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            done = [pool.submit(act, target) for target in targets]
        for future in done:
            future.result()

    def _relabel(self, world: World | None) -> None:
        """Give seats and namespaces the labels that the world sets, and their usual labels
        otherwise."""
        labels = world.relabelled if world else {}
        names = self.seats.namespaces
        labelled: list[tuple[ObjectRef, str, Mapping[str, str]]] = [
            (ObjectRef(api_version="v1", kind="Namespace", name=names[space]), space, rest)
            for space, rest in worlds.NAMESPACE_LABELS.items()
        ]
        for space, rest in worlds.ACCOUNT_LABELS.items():
            account = ObjectRef(
                api_version="v1", kind="ServiceAccount", name=worlds.ACCOUNT, namespace=names[space]
            )
            labelled.append((account, f"{space}.{worlds.ACCOUNT}", rest))
        for seat in self.seats.seats:
            pod = ObjectRef(
                api_version="v1", kind="Pod", name=seat.pod, namespace=names[seat.space]
            )
            labelled.append((pod, ".".join(seat.kind), worlds.SEAT_LABELS[seat.kind]))
        for target, called, at_rest in labelled:
            wanted = labels.get(called, at_rest)
            now = self._labels.get(target, at_rest)
            if wanted != now:
                self._labels[target] = wanted
                self._change_labels(target, now, wanted)

    def _change_labels(
        self, target: ObjectRef, now: Mapping[str, str] | None, wanted: Mapping[str, str] | None
    ) -> None:
        """Replace the labels of an object; None: the object does not exist."""
        changes = self.applied.changes
        why = "a label that a world's policy selects"
        if wanted is None:
            changes.delete(target, why)
        elif now is None:
            made = {
                "apiVersion": target.api_version,
                "kind": target.kind,
                "metadata": {"name": target.name, "labels": dict(wanted)},
            }
            changes.apply(made, why, namespace=target.namespace)
        else:
            changes.patch(target, {"metadata": {"labels": dict.fromkeys(now) | dict(wanted)}}, why)
