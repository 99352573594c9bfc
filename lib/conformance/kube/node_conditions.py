"""What a Node says of itself: whether it is Ready, and why not.  Source: Kubernetes' documents, "Node status"."""

from typing import Any

TAINTS = (
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
)
"""Of nodes that are down, or about to be."""


def not_ready(node: dict[str, Any]) -> str:
    """Status, reason and message of its condition Ready, or its taint; empty: it is Ready, or does not tell."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((one for one in conditions if one.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") != "True":
        return f"Ready {ready.get('status')}, {ready.get('reason')}: {ready.get('message')}"
    taints = [taint.get("key") for taint in (node.get("spec") or {}).get("taints") or []]
    return next((f"taint {key}" for key in TAINTS if key in taints), "")


def boot_id(node: dict[str, Any]) -> str:
    """Of the system that runs on it now; empty: not told."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")
