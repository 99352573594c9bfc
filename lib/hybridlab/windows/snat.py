"""The source address that a Windows node gives its pods on their way to a ClusterIP."""

from __future__ import annotations

from typing import Literal

from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.reserved import source_vip


def service_source(
    mode: Literal["overlay", "l2bridge"], windows_build: str, *, enable_dsr: bool, block: str, node_address: str
) -> str | None:
    """The rewritten source of ClusterIP traffic of local pods to pod backends; None when the pod's own is kept.

    Without DSR it is kube-proxy's ``--source-vip`` (block .2) in overlay mode and the node's address in l2bridge
    mode (kubernetes#83072); with DSR nothing is rewritten.  What comes in by a NodePort gets the same address with and
    without DSR: ask with ``enable_dsr=False``.
    """
    if uses_dsr(windows_build, enable_dsr=enable_dsr):
        return None
    return source_vip(block) if mode == "overlay" else node_address
