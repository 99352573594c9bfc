# SPDX-License-Identifier: Apache-2.0
"""The image of a pod, chosen by its manifest, its node's Windows build and the user's options; and
the list of all images."""

from collections.abc import Iterable, Iterator
from functools import cache

from conformance.errors import MissingCapability
from conformance.kube import manifest
from conformance.model.endpoint import OS
from conformance.model.facts import NodeFacts
from conformance.pods.roles import MANIFESTS
from conformance.settings import ImageChoice, Images, Mirror

WINDOWS_TAGS = {
    17763: "ltsc2019",
    18362: "1903",
    18363: "1909",
    19041: "2004",
    19042: "20H2",
    20348: "ltsc2022",
    25398: "ltsc2022",
    26100: "ltsc2025",
}
"""The tag of windows/servercore that runs on each host build under process isolation (Microsoft's
version table).

Builds below 20348 run only their own image; 25398 (23H2) has no server core image of its own and
runs the image of 20348. The revision (UBR) need not match from 1809 on.
"""


HOST_PROCESS = "windows-host-process-containers-base-image"


def on_every_build(image: str) -> bool:
    """Return whether an image runs on every build: it has no Windows files, or has a variant for
    each build under a single tag."""
    return HOST_PROCESS in image or "/pause:" in image


def windows_image(image: str, node: NodeFacts) -> str:
    """Return the manifest's Windows image with the tag that fits a node's build.  Raise
    MissingCapability."""
    if on_every_build(image):
        return image
    label = node.labels.get("node.kubernetes.io/windows-build", "").split(".")
    build = (
        node.windows_build[0] if node.windows_build else int(label[2]) if len(label) > 2 else None
    )
    tag = WINDOWS_TAGS.get(build or 0)
    if tag is None:
        raise MissingCapability(
            f"node {node.name} runs Windows build {build or 'unknown'} ({node.os_image}), "
            "for which the suite knows no Server Core image",
            f"use nodes with one of the known builds: {', '.join(map(str, sorted(WINDOWS_TAGS)))}",
        )
    repository, _ = split(image)
    return f"{repository}:{tag}"


def split(image: str) -> tuple[str, str]:
    """Return (repository, tag), without any digest; the tag may be empty."""
    whole = image.partition("@")[0]
    head, colon, tail = whole.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (whole, "")


def reference(image: str, images: Images) -> str:
    """Return the reference by which kubelets pull a published image: from the images file,
    otherwise from a mirror."""
    choice = images.choices.get(image, ImageChoice())
    name, tag = split(choice.name or mirrored(image, images.mirrors))
    tag = choice.tag or tag or split(image)[1]
    return f"{name}:{tag}" + (f"@{choice.digest}" if choice.digest else "")


def mirrored(image: str, mirrors: Iterable[Mirror]) -> str:
    """Return the image's name at the mirror of its registry; without such a mirror, the image
    itself. If the mirror replaces a named registry, the rest of the path stays: with
    ``mcr.microsoft.com=r.example/mcr``, ``mcr.microsoft.com/windows/servercore:ltsc2022`` becomes
    ``r.example/mcr/windows/servercore:ltsc2022``."""
    fitting = [
        item for item in mirrors if not item.upstream or image.startswith(f"{item.upstream}/")
    ]
    if not fitting:
        return image
    mirror = max(fitting, key=lambda mirror: len(mirror.upstream))
    if mirror.upstream:
        return f"{mirror.prefix}/{image.removeprefix(f'{mirror.upstream}/')}"
    first, slash, rest = image.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return f"{mirror.prefix}/{rest if named else image}"


def pull_secrets(published: Iterable[str], images: Images) -> list[str]:
    """Return the names of the pull secrets that pods with these images need."""
    single = (images.choices[item].pull_secret for item in published if item in images.choices)
    return list(dict.fromkeys((*images.pull_secrets, *(item for item in single if item))))


def is_on(image: str, present: set[str]) -> bool:
    """Return whether an image is among the names that a node reports; a digest counts, not its
    tag."""
    repository, at, digest = image.partition("@")
    return f"{split(repository)[0]}@{digest}" in present if at else image in present


@cache
def published() -> dict[OS, tuple[str, ...]]:
    """Return the published name of every image of the suite's manifests, by operating system, with
    server core for every build."""
    found: dict[OS, dict[str, None]] = {"linux": {}, "windows": {}}
    for path in sorted(MANIFESTS.glob("*/*.yaml")):
        for image, os in _of(path.relative_to(MANIFESTS).as_posix()):
            tags = (
                dict.fromkeys(WINDOWS_TAGS.values())
                if os == "windows" and not on_every_build(image)
                else {}
            )
            found[os].update(dict.fromkeys([f"{split(image)[0]}:{tag}" for tag in tags] or [image]))
    return {os: tuple(images) for os, images in found.items()}


def for_node(node: NodeFacts) -> tuple[str, ...]:
    """Return the published images that the suite's pods need on a node.  Raise
    MissingCapability."""
    return tuple(
        dict.fromkeys(
            image if node.os == "linux" else windows_image(image, node)
            for image in published()[node.os]
        )
    )


def _of(path: str) -> Iterator[tuple[str, OS]]:
    for obj in manifest.load(MANIFESTS / path):
        spec = obj.get("spec") or {}
        pod = (spec.get("template") or {}).get("spec") or (spec if obj["kind"] == "Pod" else {})
        yield from (
            (container["image"], (pod.get("os") or {}).get("name", "linux"))
            for container in (*pod.get("initContainers", ()), *pod.get("containers", ()))
        )
