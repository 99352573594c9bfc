# SPDX-License-Identifier: Apache-2.0
"""The API without a network: store, verbs and rules together, for the server and for components in
the process.

Tests of components use it alone: ``Core(Settings()).client("system:kube-scheduler")``, inside a
running event loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hybridlab.api.authentication import Authenticator, Token
from hybridlab.api.authorization import Authorizer
from hybridlab.api.bootstrap import Bootstrap, built_in_definitions
from hybridlab.api.client import LocalClient
from hybridlab.api.contract import Obj
from hybridlab.api.escalation import Escalation
from hybridlab.api.kinds.calico_rules import SelectorProblem
from hybridlab.api.kinds.definitions import Definitions
from hybridlab.api.kinds.table import strategies
from hybridlab.api.operations import Operations
from hybridlab.api.requests import AUTHENTICATED, MASTERS, User
from hybridlab.api.resources import KUBERNETES, Catalogue, Resource, calico_resources
from hybridlab.api.reviews import Reviews
from hybridlab.api.schemas.shapes import Findings
from hybridlab.api.store import HISTORY, Store
from hybridlab.api.subresources import Subresources
from hybridlab.api.views import Views


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of the API server."""

    kubernetes_version: str = "v1.34.1"
    service_cidr: str = "10.96.0.0/12"
    node_port_range: str = "30000-32767"
    calico_v3_api: bool = True
    """True if projectcalico.org/v3 is served."""
    calico_crd_v1_api: bool = True
    """True if crd.projectcalico.org/v1 is served."""
    calico_version: str = "v3.31.2"
    calico_operator: bool = True
    """True if operator.tigera.io/v1 is served."""
    selector_problem: SelectorProblem = lambda text: None
    """A function that returns what is wrong with a Calico selector's syntax, or None; the default
    always returns None."""
    tokens: Mapping[str, Token] = field(default_factory=dict)
    """Bearer tokens that are accepted."""
    ca_certificate: str = ""
    """PEM of the CA, for the ConfigMap kube-root-ca.crt of each namespace."""
    history: int = HISTORY
    """The number of latest changes per kind from which a watch can start. The smaller the number,
    the sooner a watch gets a 410."""


class Core:
    """Store, verbs and rules of a cluster."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.history)
        self.catalogue = Catalogue(
            (
                *KUBERNETES,
                *calico_resources(
                    v3=settings.calico_v3_api,
                    crd_v1=settings.calico_crd_v1_api,
                    operator=settings.calico_operator,
                ),
            )
        )
        self.views = Views(settings.calico_version)
        kinds = strategies(
            self.store,
            service_cidr=settings.service_cidr,
            node_port_range=settings.node_port_range,
            populate_namespace=self._populate_namespace,
            selector_problem=settings.selector_problem,
            names_with_tier=self.views.prefixed,
        )
        self.authorizer = Authorizer(self.store)
        escalation = Escalation(self.authorizer)
        self.operations = Operations(
            self.store, self.catalogue, self.views, kinds, _check_custom, escalation=escalation
        )
        self.definitions = Definitions(self.store, self.catalogue, self.operations.lifecycle.later)
        self.definitions.built_in.update(
            item["metadata"]["name"] for item in built_in_definitions(self.catalogue)
        )
        self.authenticator = Authenticator(settings.tokens, self.store)
        self.reviews = Reviews(self.authorizer, self.authenticator)
        self.subresources = Subresources(self.operations)
        self._bootstrap = Bootstrap(self.operations, settings.service_cidr, settings.ca_certificate)
        self._bootstrap.run()

    def _populate_namespace(self, name: str) -> None:
        self._bootstrap.populate_namespace(name)

    def client(self, name: str, groups: tuple[str, ...] = (MASTERS,)) -> LocalClient:
        """Return a client for a component; pass other ``groups`` to let RBAC decide."""
        user = User(name, (*groups, AUTHENTICATED))
        return LocalClient(self.operations, self.subresources, user, self.authorizer.check)


def _check_custom(resource: Resource, obj: Obj) -> Findings:
    from hybridlab.api.schemas.structural import (
        check_custom,  # only labs with CRDs of their own need it
    )

    return check_custom(resource.structural or {}, obj)
