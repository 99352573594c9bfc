# SPDX-License-Identifier: Apache-2.0
"""The images that ran, by digest. They are data for the report; no verdict depends on them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.model.endpoint import OS

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, order=True)
class RanImage:
    """An image of the suite's pods that nodes of an operating system ran."""

    image: str
    """The image's reference in the pod."""
    image_id: str
    """The image by the kubelet's report: ``docker.io/library/busybox@sha256:...``."""
    os: OS
    nodes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return ``sha256:...``; an empty string if the kubelet reports none."""
        found = _DIGEST.search(self.image_id)
        return found[0] if found else ""


def together(images: Iterable[RanImage]) -> tuple[RanImage, ...]:
    """Return the images in a fixed order, with equal entries of several nodes or processes
    merged."""
    nodes: dict[tuple[str, str, OS], set[str]] = {}
    for image in images:
        nodes.setdefault((image.image, image.image_id, image.os), set()).update(image.nodes)
    return tuple(
        RanImage(image=image, image_id=image_id, os=os, nodes=tuple(sorted(there)))
        for (image, image_id, os), there in sorted(nodes.items())
    )
