# SPDX-License-Identifier: Apache-2.0
"""The suite's images with their digests, as a file for ``--images``.

Digests come from ``crane digest``, which knows registries' tokens and the user's logins.
"""

import re
import subprocess
from collections.abc import Iterator

from conformance.errors import SuiteError, UsageProblem
from conformance.pods.images import on_every_build, published

CRANE = "crane"
WITHIN = 120.0
"""s.  For one image."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
BY_TAG = (
    "stays by tag: its digest changes with each monthly update of Windows, and an older one is "
    "neither on nodes nor patched"
)


def locked() -> Iterator[str]:
    """Yield the lines of the file.

    Raise UsageProblem where there is no crane, SuiteError where a registry gives no digest.
    """
    yield "# pytest --images=THIS_FILE; written by calico-conformance images --lock"
    for system, images in published().items():
        for image in images:
            if system == "windows" and not on_every_build(image):
                yield f"# {image} {BY_TAG}"
            else:
                yield f"{image}: {{digest: {digest(image)}}}"


def digest(image: str) -> str:
    """Return the digest of an image, of all its platforms together.  Raise like :func:`locked`."""
    try:
        done = subprocess.run(
            [CRANE, "digest", image],
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise UsageProblem(
            "images --lock: there is no crane on PATH, which asks registries for digests: "
            "go install github.com/google/go-containerregistry/cmd/crane@latest"
        ) from None
    except subprocess.TimeoutExpired:
        raise SuiteError(
            f"images --lock: crane digest {image} did not end within {WITHIN:.0f} s"
        ) from None
    found = done.stdout.strip()
    if done.returncode or not DIGEST.fullmatch(found):
        words = " ".join(done.stderr.split())[-300:] or f"it said {found[:100]!r}"
        raise SuiteError(f"images --lock: no digest of {image}: {words}")
    return found
