# SPDX-License-Identifier: Apache-2.0
"""The images file of a run, compared with the suite's images."""

from collections.abc import Mapping
from pathlib import Path

from conformance.settings import ImageChoice, load_choices


def image_choices(path: Path) -> Mapping[str, ImageChoice]:
    """Return the choices for single images in the file of ``--images PATH``. Raise UsageProblem."""
    from conformance.pods.images import published  # reads the manifests, which few runs need here

    return load_choices(path, [image for images in published().values() for image in images])
