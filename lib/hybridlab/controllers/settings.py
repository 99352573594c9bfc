# SPDX-License-Identifier: Apache-2.0
"""The time-outs of the lab's kubelets. They are shorter than a real kubelet's, so that a lab shows
the same behaviour in less time."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class KubeletSettings:
    """Times of the kubelets. They are seconds, unless stated otherwise."""

    back_off_first: float = 1.0
    """The wait before the second restart of a container or the second pull of an image (the first
    is at once); a real kubelet waits 10."""
    back_off_last: float = 30.0
    """The longest wait between such attempts; a real kubelet's is 300. After a container has run
    for twice this time, its waits start again from the first."""
    sandbox_retry: float = 0.2
    """The wait between attempts to create a pod's sandbox, doubling to ``back_off_last``."""
    mount_retry: float = 2.0
    """The wait between checks of volumes that wait for a missing object; the object's appearance is
    noticed at once."""
    early_probe_period: float = 0.03
    early_probe_window: float = 1.0
    """Seconds after a container's start in which failing readiness and startup probes are repeated
    every ``early_probe_period`` and not counted. The reason: a real container takes longer to start
    than its first probe."""
