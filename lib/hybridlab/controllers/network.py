"""The network plugin seam as controllers name it; it stands in ``dataplane.pod_network`` for Calico to import too."""

from __future__ import annotations

from hybridlab.dataplane.pod_network import PodAttachment, PodNetwork, SandboxError

__all__ = ["PodAttachment", "PodNetwork", "SandboxError"]
