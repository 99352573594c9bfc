# SPDX-License-Identifier: Apache-2.0
"""The suite's images with their digests, as a file for ``--images``.

Manifests come from ``crane manifest``, which handles registries' tokens and the user's logins.
``crane digest`` would also print a digest for a page of a gateway, which is no manifest.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator

from conformance.errors import SuiteError, UsageProblem
from conformance.pods.images import on_every_build, published

CRANE = "crane"
WITHIN = 120.0
"""The time limit, in seconds, for one image."""
BY_TAG = (
    "is named by tag, not by digest: the digest changes with each monthly update of Windows; an "
    "image of an earlier month lacks the newest patches, and no node has it"
)


def locked() -> Iterator[str]:
    """Yield the lines of the file.

    Raise UsageProblem if crane is not installed, SuiteError if a registry returns no digest.
    """
    yield "# pytest --images=THIS_FILE; written by calico-conformance images --lock"
    for system, images in published().items():
        for image in images:
            if system == "windows" and not on_every_build(image):
                yield f"# {image} {BY_TAG}"
            else:
                yield f"{image}: {{digest: {digest(image)}}}"


def digest(image: str) -> str:
    """Return the digest of an image, which covers all its platforms. Raise the errors of
    :func:`locked`."""
    try:
        done = subprocess.run(
            [CRANE, "manifest", image],
            capture_output=True,
            timeout=WITHIN,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise UsageProblem(
            "images --lock: crane, which reads digests from registries, is not in PATH; install: "
            "go install github.com/google/go-containerregistry/cmd/crane@latest"
        ) from None
    except subprocess.TimeoutExpired:
        raise SuiteError(
            f"images --lock: crane manifest {image} did not end within {WITHIN:.0f} s"
        ) from None
    if done.returncode:
        words = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise SuiteError(
            f"images --lock: the digest of {image} could not be read: {words or 'crane failed'}"
        )
    if not _is_manifest(done.stdout):
        begin = " ".join(done.stdout[:100].decode(errors="replace").split())
        raise SuiteError(
            f"images --lock: the digest of {image} could not be read: the registry, or a proxy in "
            f"front of it, sent no manifest; its answer begins {begin!r}"
        )
    return f"sha256:{hashlib.sha256(done.stdout).hexdigest()}"


def _is_manifest(content: bytes) -> bool:
    """Return whether the content describes an image, of one platform or of several."""
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("schemaVersion") == 2
