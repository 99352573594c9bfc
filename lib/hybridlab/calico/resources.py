# SPDX-License-Identifier: Apache-2.0
"""Names of Calico's resources as an API client asks for them, by what the cluster serves."""

from hybridlab.profiles.model import Profile

V3 = "projectcalico.org"
V1 = "crd.projectcalico.org"
ONLY_V1 = frozenset({"ipamblocks", "ipamhandles"})
"""Never served by the aggregated API server."""
OTHER_NAME_IN_V1 = {"ipamconfigurations": ("ipamconfigs", "IPAMConfig")}


class CalicoResources:
    """Which group each of Calico's kinds is read and written in: projectcalico.org/v3 where that is served."""

    def __init__(self, profile: Profile) -> None:
        self._v3 = profile.calico.v3_api
        self._v1 = profile.calico.crd_v1_api

    def served(self, plural: str) -> bool:
        """The cluster serves the kind in some group."""
        return self._v1 or (self._v3 and plural not in ONLY_V1)

    def name(self, plural: str) -> str:
        """``ippools`` to ``ippools.projectcalico.org``, or to what crd.projectcalico.org calls it."""
        if self._v3 and plural not in ONLY_V1:
            return f"{plural}.{V3}"
        return f"{OTHER_NAME_IN_V1.get(plural, (plural, ''))[0]}.{V1}"

    def head(self, plural: str, kind: str) -> dict[str, str]:
        """``apiVersion`` and ``kind`` for an object written under ``name(plural)``."""
        if self._v3 and plural not in ONLY_V1:
            return {"apiVersion": f"{V3}/v3", "kind": kind}
        return {"apiVersion": f"{V1}/v1", "kind": OTHER_NAME_IN_V1.get(plural, ("", kind))[1]}
