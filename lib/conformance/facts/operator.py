# SPDX-License-Identifier: Apache-2.0
"""Facts about Calico's operator and Windows nodes: its settings, its status, and the objects that
it installed. The module judges nothing."""

from collections.abc import Sequence

from conformance.errors import MissingCapability, NotAboutThisCluster
from conformance.facts.calico_workloads import OS, workloads
from conformance.facts.objects import CalicoObjects
from conformance.facts.reading import Reading
from conformance.facts.tigera_status import tigera_status
from conformance.facts.workloads import all_containers, described
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, mapping_at, value_at
from conformance.model.facts import Fact

WINDOWS = "calico-windows"
ENDPOINT = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
DEMANDED = "as the operator requires"
RENDERED = "as the operator renders it"
NOTHING = "nothing"


class OperatorFacts:
    """The facts about the operator that a single test reads."""

    def __init__(self, calico: CalicoObjects) -> None:
        self._calico = calico
        self._facts = calico.facts
        self._reading = Reading(calico.kube)

    def demands(self) -> dict[str, Fact[str]]:
        """Return each setting that the operator requires before it installs Calico on Windows
        nodes: ``as the operator requires``, or the present value."""
        spec = self._installation()["spec"]
        absent = self._absent_endpoint()
        found = {
            "serviceCIDRs": Fact(
                DEMANDED if spec.get("serviceCIDRs") else "none",
                "Installation default .spec.serviceCIDRs",
            ),
            "the API server's address": Fact(
                f"no {' and no '.join(absent)}" if absent else DEMANDED,
                "ConfigMap tigera-operator/kubernetes-services-endpoint",
            ),
        }
        if mapping_at(spec, "cni").get("type", "Calico") == "Calico":
            found |= _encapsulations(list_at(spec, "calicoNetwork", "ipPools"))
            found |= self._strict_affinity()
        return found

    def _absent_endpoint(self) -> list[str]:
        """Return the keys that are missing from the ConfigMap with the API server's address.

        Raise MissingCapability if the ConfigMap cannot be read.
        """
        label = "ConfigMap kubernetes-services-endpoint"
        config = self._reading.one(
            "v1", "ConfigMap", "kubernetes-services-endpoint", "tigera-operator"
        )
        if config is None and not self._reading.reason(label).startswith("there is no "):
            raise MissingCapability(self._reading.reason(label), "give the run the right to get it")
        return [key for key in ENDPOINT if not value_at(config, "data", key)]

    def _strict_affinity(self) -> dict[str, Fact[str]]:
        if self._facts.ipam.value != "calico-ipam":
            return {}
        return {
            name: Fact({True: DEMANDED, False: "false", None: None}[strict.value], strict.source)
            for name, strict in self._calico.strict_affinity().items()
        }

    def outcome(self) -> dict[str, Fact[str]]:
        """Return the state of Calico on Windows: TigeraStatus calico-windows, and the number of
        ready pods of the DaemonSet."""
        reported = tigera_status(self._reading)
        if reported.value is None or WINDOWS not in reported.source:
            reported = Fact(None if reported.value is None else "none", reported.source)
        else:
            unwell = [words for words in reported.value.split("; ") if words.startswith(WINDOWS)]
            reported = Fact(unwell[0] if unwell else "Available", reported.source)
        daemons = workloads(self._reading).windows
        status = (daemons or {}).get("status") or {}
        wanted = status.get("desiredNumberScheduled", 0)
        ready = status.get("numberReady", 0)
        count = "all ready" if wanted and wanted == ready else f"{ready} of {wanted} ready"
        return {
            f"TigeraStatus {WINDOWS}": reported,
            described(daemons): Fact(count, ".status of the DaemonSet"),
        }

    def shape(self) -> dict[str, Fact[str]]:
        """Return a fact about each checked field of the DaemonSet on Windows: ``as the operator
        renders it``, or the difference. Additional containers do not count."""
        daemons = workloads(self._reading).windows
        if daemons is None:
            raise MissingCapability(
                "there is no DaemonSet of Calico for Windows nodes", "see XOP-1"
            )
        spec = daemons["spec"]["template"]["spec"]
        security = spec.get("securityContext") or {}
        selector = spec.get("nodeSelector") or {}
        names = {container["name"] for container in all_containers(daemons)}
        wanted = {"felix": True, "node": True}
        if self._facts.mode.value in ("vxlan", "bgp"):
            wanted["confd"] = self._facts.mode.value == "bgp"
        if self._facts.cni.value is not None:
            wanted["install-cni"] = self._facts.cni.value == "Calico"
        observed = {
            "hostProcess": (bool((security.get("windowsOptions") or {}).get("hostProcess")), True),
            "hostNetwork": (bool(spec.get("hostNetwork")), True),
            f"nodeSelector {OS}": (selector.get(OS), "windows"),
            **{f"container {name}": (name in names, there) for name, there in wanted.items()},
        }
        where = f"{described(daemons)}; mode {self._facts.mode.value}, CNI {self._facts.cni.value}"
        return {
            name: Fact(
                RENDERED if is_there == right else f"{is_there} instead of {right}".lower(), where
            )
            for name, (is_there, right) in observed.items()
        }

    def on_windows(self) -> dict[str, Fact[str]]:
        """Return what the operator installed on Windows nodes: ``nothing``, or the DaemonSet that
        it owns.

        Raise NotAboutThisCluster if there is no Installation.
        """
        self._installation()
        found = workloads(self._reading)
        own = described(found.windows) if found.of_the_operator else NOTHING
        return {
            "what the operator installed on Windows nodes": Fact(
                own, "DaemonSets that Installation default owns"
            )
        }

    def _installation(self) -> Obj:
        found = self._reading.one("operator.tigera.io/v1", "Installation", "default")
        if found is None:
            raise NotAboutThisCluster(
                "it is about clusters with Calico's operator; here: "
                f"{self._reading.reason('Installation default')}"
            )
        return found


def _encapsulations(pools: Sequence[Obj]) -> dict[str, Fact[str]]:
    """Map each IPv4 pool to ``as the operator requires`` if the operator accepts the pool's
    encapsulation, else to the encapsulation."""
    found = {}
    for pool in pools:
        if ":" not in str(pool.get("cidr")):
            named = pool.get("encapsulation") or "IPIP"
            found[f"encapsulation of {pool.get('cidr')}"] = Fact(
                DEMANDED if named in ("VXLAN", "None") else named,
                f"Installation default .spec.calicoNetwork.ipPools[].encapsulation {named}",
            )
    return found
