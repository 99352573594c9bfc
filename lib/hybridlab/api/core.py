"""The API without a network: store, verbs and rules put together, for the server and for components in the process.

Tests of components use it alone: ``Core(Settings()).client("system:kube-scheduler")``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hybridlab.api.client import LocalClient
from hybridlab.api.operations import Operations
from hybridlab.api.requests import AUTHENTICATED, MASTERS, Target, User
from hybridlab.api.resources import KUBERNETES, Catalogue, calico_resources
from hybridlab.api.store import HISTORY, Store
from hybridlab.api.views import Views


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What kind of API server it is."""

    kubernetes_version: str = "v1.34.1"
    service_cidr: str = "10.96.0.0/12"
    node_port_range: str = "30000-32767"
    calico_v3_api: bool = True
    """projectcalico.org/v3 is served."""
    calico_crd_v1_api: bool = True
    """crd.projectcalico.org/v1 is served."""
    tier_prefixed_names: bool = True
    """crd.projectcalico.org/v1 shows policies of the default tier as ``default.NAME`` (Calico up to v3.31)."""
    history: int = HISTORY
    """Changes per kind that a watch can start from; fewer make 410 come sooner."""


class Core:
    """Store, verbs and rules of one cluster."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.history)
        self.catalogue = Catalogue(
            (*KUBERNETES, *calico_resources(v3=settings.calico_v3_api, crd_v1=settings.calico_crd_v1_api))
        )
        self.views = Views(tier_prefixed_names=settings.tier_prefixed_names)
        self.operations = Operations(self.store, self.catalogue, self.views, {})

    def client(self, name: str, groups: tuple[str, ...] = (MASTERS,)) -> LocalClient:
        """Return a client for a component; give other ``groups`` to have RBAC decide."""
        return LocalClient(self.operations, User(name, (*groups, AUTHENTICATED)), self._authorize)

    def _authorize(self, user: User, verb: str, target: Target) -> None:
        raise NotImplementedError
