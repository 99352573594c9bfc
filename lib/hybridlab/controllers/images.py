# SPDX-License-Identifier: Apache-2.0
"""Image pulls with the behaviour and words of a kubelet with containerd; ``Runtime.image`` has the
existing images."""

import hashlib

from hybridlab.profiles.machines import Machine
from hybridlab.runtime.model import ImageFacts

WINDOWS_LTSC = (20348, 26100)
"""The first builds of long-term releases whose hosts also run containers of the previous long-term
release (hcsshim's compatibility rule)."""


class PullError(Exception):
    """The image cannot be pulled; the message is containerd's."""


def canonical(reference: str) -> str:
    """Return the full reference: ``busybox`` is ``docker.io/library/busybox:latest``."""
    first, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif "." not in first and ":" not in first and first != "localhost":
        reference = f"docker.io/{reference}"
    name = reference.rpartition("/")[2]
    return reference if ":" in name or "@" in name else f"{reference}:latest"


def image_id(reference: str) -> str:
    """Return ``repository@sha256:...``, the same for each call with this reference."""
    full = canonical(reference)
    if "@" in full:
        return full
    repository, _, _ = full.rpartition(":")
    return f"{repository}@sha256:{hashlib.sha256(full.encode()).hexdigest()}"


def image_size(reference: str) -> int:
    """Return a size in bytes for events, from 1 to 64 MB, the same for each call with this
    reference."""
    return 10**6 + int(hashlib.sha256(reference.encode()).hexdigest()[:8], 16) % (63 * 10**6)


def check_pull(image: ImageFacts, machine: Machine, *, host_process: bool) -> None:
    """Raise :class:`PullError` in containerd's wording if ``machine`` cannot pull the image."""
    full = canonical(image.reference)
    prefix = f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}":'
    if not image.known:
        raise PullError(f'{prefix} failed to resolve reference "{full}": {full}: not found')
    if machine.os not in image.os or not (host_process or _build_matches(image, machine)):
        raise PullError(f"{prefix} no match for platform in manifest: not found")


def _build_matches(image: ImageFacts, machine: Machine) -> bool:
    host = machine.build
    if host is None:
        return True
    return any(build_runs_on(build, host) for build in image.windows_builds)


def build_runs_on(build: int, host: int) -> bool:
    """Return whether an image's build runs on a host by hcsshim's rule for process isolation.

    On hosts before build 20348, both builds must be equal. On later hosts, the image may be as old
    as the previous long-term release. Build 0 marks an image without Windows files, which runs
    anywhere.
    """
    if build == 0:
        return True
    if host < WINDOWS_LTSC[0]:
        return build == host
    earlier = [release for release in WINDOWS_LTSC if release < host]
    return (earlier[-1] if earlier else WINDOWS_LTSC[0]) <= build <= host
