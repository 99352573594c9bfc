# SPDX-License-Identifier: Apache-2.0
"""Reads objects for facts: each read returns an object, or None with the reason. A missing right is
no error here."""

from collections.abc import Callable
from typing import Any, TypeVar

from conformance.errors import MissingCapability
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused

T = TypeVar("T")


def required(what: str, verb: str, read: Callable[[], T]) -> T:
    """Return the result of ``read``. Raise MissingCapability if the API server refuses the request;
    ``verb`` names the missing right, such as ``get it``."""
    try:
        return read()
    except ApiRefused as refusal:
        raise MissingCapability(
            f"{what} could not be read: {refusal.message}", f"give the run the right to {verb}"
        ) from refusal


class Reading:
    """The reads of a detection, each made once. ``why`` maps objects that could not be read to the
    reasons."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self._objects: dict[tuple[str, ...], Obj | None] = {}
        self._lists: dict[tuple[str, ...], list[Obj]] = {}
        self.why: dict[str, str] = {}

    def one(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> Obj | None:
        """Return one object. If it cannot be read, return None; :meth:`reason` then returns why."""
        key = (api_version, kind, name, namespace or "")
        if key not in self._objects:
            self._objects[key] = self._read(
                kind, name, lambda: self.kube.get(api_version, kind, name, namespace)
            )
        return self._objects[key]

    def all(self, api_version: str, kind: str, namespace: str | None = None) -> list[Obj]:
        """Return all objects of a kind; an empty list if they cannot be read."""
        key = (api_version, kind, namespace or "")
        if key not in self._lists:
            self._lists[key] = (
                self._read(kind, "", lambda: self.kube.objects(api_version, kind, namespace)) or []
            )
        return self._lists[key]

    def first(self, kind: str, name: str, *api_versions: str) -> tuple[Obj | None, str]:
        """Return the object from the first of these group-versions that has it, together with that
        group-version; (None, an empty string) if none has it."""
        for api_version in api_versions:
            found = self.one(api_version, kind, name)
            if found is not None:
                return found, api_version
        return None, ""

    def _read(self, kind: str, name: str, read: Any) -> Any:
        label = f"{kind} {name}".strip()
        try:
            return read()
        except MissingCapability:
            self.why.setdefault(label, f"{kind} is not served")
        except ApiRefused as refusal:
            text = {403: f"no right to read {label}", 404: f"there is no {label}"}.get(refusal.code)
            self.why[label] = text or f"{label}: {refusal.code} {refusal.message}"
        return None

    def reason(self, *labels: str) -> str:
        """Return why these objects could not be read, in a phrase."""
        return (
            ", ".join(dict.fromkeys([self.why[label] for label in labels if label in self.why]))
            or "no object shows it"
        )
