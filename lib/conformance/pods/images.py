"""Which image a pod gets: from the manifest, for the node's Windows build, from the registry that the user names."""

from __future__ import annotations

from conformance.errors import MissingCapability
from conformance.model.facts import NodeFacts

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
"""Host build to the tag of windows/servercore that runs on it under process isolation (Microsoft's version table).

Builds below 20348 run only their own; 25398 (23H2) has no server core image of its own and runs 20348's.  The revision
(UBR) need not match from 1809 on.
"""


def windows_image(image: str, node: NodeFacts) -> str:
    """The manifest's Windows image with the tag that fits a node's build.  Raises MissingCapability."""
    label = node.labels.get("node.kubernetes.io/windows-build", "").split(".")
    build = node.windows_build[0] if node.windows_build else int(label[2]) if len(label) > 2 else None
    tag = WINDOWS_TAGS.get(build or 0)
    if tag is None:
        raise MissingCapability(
            f"node {node.name} runs Windows build {build or 'unknown'} ({node.os_image}), "
            "for which no server core image is known",
            f"known builds: {', '.join(map(str, sorted(WINDOWS_TAGS)))}; use nodes of one of them",
        )
    repository, _ = split(image)
    return f"{repository}:{tag}"


def split(image: str) -> tuple[str, str]:
    """(repository, tag or "")."""
    head, colon, tail = image.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (image, "")


def mirrored(image: str, registry: str | None) -> str:
    """The image at another registry: the part before the first ``/`` that names a host is replaced."""
    if not registry:
        return image
    first, slash, rest = image.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return f"{registry.rstrip('/')}/{rest if named else image}"
