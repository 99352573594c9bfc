"""The healer ``hns-network``: what a restore runs for a Windows node whose network may have another VNI than it should.

Its journal entry is written before the VNI is changed, so that a restore, which goes backwards, has put the VNI back
when it comes to the healer.
"""

from collections.abc import Mapping
from typing import Any

from conformance.disrupt.drain import Drain
from conformance.disrupt.procedure import NetworkStays, Procedure
from conformance.disrupt.vni import Vni
from conformance.errors import EnvironmentBroken, MissingCapability, first_line
from conformance.timing import SYSTEM_CLOCK, Clock, until


class HnsNetworkHealer:
    """Gives a Windows node a network with the configured VNI, where it has another.

    Its parts change the cluster without notes of their own: the entry stays open until the node is well.
    """

    def __init__(
        self,
        vni: Vni,
        procedure: Procedure,
        drain: Drain,
        *,
        within: float,
        every: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``within``: seconds from the procedure's end until the first pod is networked."""
        self._vni = vni
        self._procedure = procedure
        self._drain = drain
        self._within = within
        self._every = every
        self._clock = clock

    def heal(self, arguments: Mapping[str, Any]) -> None:
        """Heal the node that ``arguments`` name.

        Raises EnvironmentBroken when it still has another VNI, or a pod that was there has no HNS endpoint.
        """
        node = str(arguments["node"])
        wanted = self._vni.configured()
        self._vni.delivered(wanted, linux=(), windows=[node])
        vsid = self._vni.vsid(node)
        if vsid in (wanted, None):
            self._drain.uncordon(node)  # the run may have ended between the removal and here
            self._procedure.revive(node)
            return
        try:
            self._procedure.new_network(node)
        except (MissingCapability, NetworkStays) as refused:
            why = first_line(refused).removesuffix(
                f"; {getattr(refused, 'remedy', '')}"
            )  # for a run that begins
            raise EnvironmentBroken(
                f"the HNS network of node {node} keeps VSID {vsid}, the VNI is {wanted}: {why}; move what is named away"
            ) from refused
        settled = until(
            lambda: self._vni.vsid(node),
            lambda found: found in (wanted, None),
            within=self._within,
            every=self._every,
            description=f"node {node} has a network with VNI {wanted}",
            clock=self._clock,
        )
        if not settled.converged:
            raise EnvironmentBroken(
                f"node {node} still has an HNS network with VSID {settled.last}, the VNI is {wanted}, although it was "
                "drained, its network removed and Calico restarted; restart the node"
            )
