# SPDX-License-Identifier: Apache-2.0
"""The names by which API clients find Calico's resources; they depend on the API groups that the
cluster serves."""

from hybridlab.profiles.model import Profile

V3 = "projectcalico.org"
V1 = "crd.projectcalico.org"
ONLY_V1 = frozenset({"ipamblocks", "ipamhandles"})
"""Resources that the aggregated API server never serves."""
OTHER_NAME_IN_V1 = {"ipamconfigurations": ("ipamconfigs", "IPAMConfig")}


class CalicoResources:
    """The API group through which each of Calico's kinds is read and written: projectcalico.org/v3
    if it is served."""

    def __init__(self, profile: Profile) -> None:
        self._v3 = profile.calico.v3_api
        self._v1 = profile.calico.crd_v1_api

    def served(self, plural: str) -> bool:
        """Return whether the cluster serves the kind in some group."""
        return self._v1 or (self._v3 and plural not in ONLY_V1)

    def name(self, plural: str) -> str:
        """Return the full name of a resource, such as ``ippools.projectcalico.org``, in the group
        that is served."""
        if self._v3 and plural not in ONLY_V1:
            return f"{plural}.{V3}"
        return f"{OTHER_NAME_IN_V1.get(plural, (plural, ''))[0]}.{V1}"

    def head(self, plural: str, kind: str) -> dict[str, str]:
        """Return ``apiVersion`` and ``kind`` for an object written under ``name(plural)``."""
        if self._v3 and plural not in ONLY_V1:
            return {"apiVersion": f"{V3}/v3", "kind": kind}
        return {"apiVersion": f"{V1}/v1", "kind": OTHER_NAME_IN_V1.get(plural, ("", kind))[1]}
