# SPDX-License-Identifier: Apache-2.0
"""The sources of the suite's images: other registries, an images file, pull secrets; and limits of
the suite's pods."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem

_REGISTRY = re.compile(r"(?:(?P<upstream>[A-Za-z0-9][\w.:/-]*)=)?(?P<prefix>[A-Za-z0-9][\w.:/-]*)")
"""Matches a registry, which has no scheme."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?::[0-9]+)?(?:/[a-z0-9][\w.-]*)+")
_TAG = re.compile(r"\w[\w.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SECRET = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_FORMS = {"name": _NAME, "tag": _TAG, "digest": _DIGEST, "pull_secret": _SECRET}
_CPU = re.compile(r"[0-9]+(?:\.[0-9]+)?|[0-9]+m")
_MEMORY = re.compile(r"[0-9]+(?:Mi|Gi)")


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A registry that replaces other registries."""

    prefix: str
    """The registry and path: ``registry.example:5000/mirror``."""
    upstream: str = ""
    """The host, with an optional path, that the mirror replaces: ``mcr.microsoft.com``,
    ``docker.io/library``; empty: all hosts."""

    @classmethod
    def parse(cls, text: str) -> Mirror:
        """Parse ``[UPSTREAM=]PREFIX`` as ``--image-registry`` takes it. Raise UsageProblem."""
        match = _REGISTRY.fullmatch(text.rstrip("/"))
        if not match or "://" in text:
            raise UsageProblem(
                f"--image-registry {text}: expected [UPSTREAM=]PREFIX, such as registry.example/mirror, "
                "or mcr.microsoft.com=registry.example/mcr"
            )
        return cls(
            prefix=match["prefix"].rstrip("/"), upstream=(match["upstream"] or "").rstrip("/")
        )


@dataclass(frozen=True, kw_only=True)
class ImageChoice:
    """The entry of an image in an images file; empty fields keep the default."""

    name: str = ""
    """The repository with its registry: ``registry.example/base/busybox``."""
    tag: str = ""
    """The tag that replaces the published tag."""
    digest: str = ""
    """The digest: ``sha256:`` and 64 hexadecimal digits."""
    pull_secret: str = ""
    """The secret of namespace ``default`` with which the kubelets pull the image."""


@dataclass(frozen=True, kw_only=True)
class Images:
    """The sources of the images of the suite's pods."""

    mirrors: tuple[Mirror, ...] = ()
    """Registries that replace other registries (air gap); the entry with the longest matching
    upstream counts."""
    choices: Mapping[str, ImageChoice] = field(default_factory=dict)
    """The replacement of each published image; the key is the image with its tag, as
    ``--list-images`` prints it."""
    pull_secrets: tuple[str, ...] = ()
    """Names of secrets of namespace ``default`` with which the kubelets pull all images."""

    @property
    def all_pull_secrets(self) -> tuple[str, ...]:
        """Return the pull secrets that apply to all images, and the pull secrets of single
        images."""
        single = (choice.pull_secret for choice in self.choices.values() if choice.pull_secret)
        return tuple(dict.fromkeys((*self.pull_secrets, *single)))


@dataclass(frozen=True, kw_only=True)
class PodLimits:
    """Limits of every container of the suite, for clusters that refuse pods without limits."""

    cpu: str
    """The CPU limit: ``2`` or ``1500m``. Windows throttles a container at this limit, and
    PowerShell's start takes a core for seconds."""
    memory: str
    """The memory limit: ``1Gi``."""

    @classmethod
    def parse(cls, text: str) -> PodLimits:
        """Parse ``cpu=2,memory=1Gi`` as ``--pod-limits`` takes it. Raise UsageProblem."""
        given = dict(part.partition("=")[::2] for part in text.split(","))
        if given.keys() != {"cpu", "memory"} or not (
            _CPU.fullmatch(given["cpu"]) and _MEMORY.fullmatch(given["memory"])
        ):
            raise UsageProblem(
                f"--pod-limits {text}: expected, for example, cpu=2,memory=1Gi or cpu=1500m,memory=512Mi"
            )
        return cls(cpu=given["cpu"], memory=given["memory"])


def load_choices(path: Path, known: Iterable[str]) -> dict[str, ImageChoice]:
    """Return the entries of the images file at ``path``; ``known``: the images that the suite has.
    Raise UsageProblem."""
    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageProblem(f"--images {path}: {' '.join(str(error).split())}") from None
    if not isinstance(plain, dict):
        raise UsageProblem(
            f"--images {path}: expected a mapping from the suite's images (pytest --list-images) to "
            "some of name, tag, digest, pull_secret"
        )
    images = sorted(known)
    return {str(image): _choice(path, str(image), entry, images) for image, entry in plain.items()}


def _choice(path: Path, image: str, entry: Any, known: list[str]) -> ImageChoice:
    where = f"--images {path}: {image}"
    if image not in known:
        near = difflib.get_close_matches(image, known, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageProblem(
            f"{where}: the suite has no such image{meant} (pytest --list-images shows all)"
        )
    if not isinstance(entry, dict) or not entry or entry.keys() - _FORMS.keys():
        raise UsageProblem(f"{where}: expected one or more of {', '.join(_FORMS)}")
    for key, value in entry.items():
        if not _FORMS[key].fullmatch(str(value)):
            raise UsageProblem(f"{where}: {key} {value} is not a valid {key}")
    return ImageChoice(**{key: str(value) for key, value in entry.items()})
