# SPDX-License-Identifier: Apache-2.0
"""The cluster and the versions that a report is about, in words."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from conformance.model.counted import counted


def cluster_name(cluster: Mapping[str, Any]) -> str:
    """Return a cluster's name without addresses and paths; the report's JSON has these."""
    parts = [
        part
        for part in (cluster["label"] or cluster["how"]).split(", ")
        if "://" not in part and "/" not in part
    ]
    return ", ".join(parts) or str(cluster["how"])


def versions(facts: Mapping[str, Any]) -> list[str]:
    """Return the versions of Calico and Kubernetes, the mode, and the Windows builds, each with its
    nodes."""
    named = [("Calico", "calico_version"), ("Kubernetes", "kubernetes_version"), ("mode", "mode")]
    nodes = [node["windows_build"] for node in facts.get("nodes") or () if node["os"] == "windows"]
    builds = Counter(".".join(map(str, build)) if build else "of unknown build" for build in nodes)
    return [
        *(
            f"{name} {value}"
            for name, key in named
            if (value := (facts.get(key) or {}).get("value"))
        ),
        *(
            f"Windows {build} ({counted(number, 'node')})"
            for build, number in sorted(builds.items())
        ),
    ]


def suite(plain: Mapping[str, Any]) -> str:
    """Return the suite that judged: version, commit and the beginning of its catalog's digest."""
    found = plain.get("suite") or {}
    commit = f" ({found['commit']})" if found.get("commit") else ""
    version = found.get("version") or "of unknown version"
    return f"suite {version}{commit}, catalog {(found.get('catalog') or 'unknown')[:12]}"
