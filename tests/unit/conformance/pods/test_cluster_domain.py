# SPDX-License-Identifier: Apache-2.0
"""The DNS domain is the domain that CoreDNS serves, wherever its configuration is."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kube.refused import ApiRefused
from conformance.pods.services import cluster_domain


class Maps:
    """ConfigMaps of kube-system by name; None: no right to read it."""

    def __init__(self, **maps: str | None) -> None:
        self.maps = maps

    def find(self, _: str, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        assert (kind, namespace) == ("ConfigMap", "kube-system")
        key = name.replace("-", "_")
        if key not in self.maps:
            return None
        text = self.maps[key]
        if text is None:
            raise ApiRefused(403, "Forbidden", "no right", "get ConfigMap")
        return {"data": {"Corefile": text}}


OWN = ".:53 {\n    kubernetes corp.example. in-addr.arpa {\n    }\n}\n"


@pytest.mark.parametrize(
    ("maps", "domain"),
    [
        (Maps(coredns=OWN), "corp.example"),
        (Maps(rke2_coredns_rke2_coredns=OWN), "corp.example"),
        (Maps(coredns=".:53 {\n}\n"), "cluster.local"),
        (Maps(coredns=None), "cluster.local"),
        (Maps(), "cluster.local"),
    ],
)
def test_the_domain_is_read_where_coredns_is_told_it(maps: Any, domain: str) -> None:
    assert cluster_domain(maps) == domain
