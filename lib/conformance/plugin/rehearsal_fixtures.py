"""Fixtures of a dry run, in place of those of the same names that change or ask.

Changes are described instead of made, pods are where they would be, expectations expect nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance.disrupt.vni import Vni
from conformance.expect.traffic import Policies, Removable
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.facts import Facts
from conformance.model.host import HnsNetwork, HnsSubnet
from conformance.plugin import state
from conformance.plugin.rehearsal import NAME, SIGN, Rehearsal
from conformance.pods.cast import Cast
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement
from conformance.settings import OsTimings, Settings

MOMENT = 0.01
"""s.  For waits on a watch, which see that nothing happens."""


class Silent:
    """Stands in for what asks the cluster: takes every call, and says nothing."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name, self._tell = name, tell

    def __getattr__(self, name: str) -> Silent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Silent(f"{self._name}.{name}", self._tell)

    def __call__(self, *arguments: Any, **named: Any) -> Silent:
        if ".remove_" in self._name:  # a command in a node, so no Change tells of it
            what = self._name.rpartition(".")[2].replace("_", " ")
            self._tell(f"{SIGN}{what} by a command in node {' '.join(map(str, arguments))}")
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class ImaginedExpect(Silent):
    """Expects nothing, but makes the changes that expectations are about."""

    def change(self, *policies: Policies, **_: object) -> None:
        """Apply them."""
        for policy in policies:
            policy.apply()

    def removed(self, policies: Removable, **_: object) -> None:
        """Remove them."""
        policies.remove()


class ImaginedHosts(Silent):
    """Nodes whose networks have the configured VNI, which is what a test that changes it has to begin with."""

    def __init__(self, tell: Callable[[str], None], kube: Kube, facts: Facts) -> None:
        super().__init__("hosts", tell)
        unneeded: Any = None  # it only reads
        self._vni = Vni(kube, unneeded, unneeded, facts, unneeded)

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        """One."""
        subnet = HnsSubnet(prefix="0.0.0.0/0", gateway="0.0.0.0", vsid=self._vni.configured())
        return [HnsNetwork(id="imagined", name="Calico", type="Overlay", management_ip="0.0.0.0", subnets=(subnet,))]


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Where changes are told."""
    rehearsal: Rehearsal = pytestconfig.pluginmanager.getplugin(NAME)
    return rehearsal.tell


@pytest.fixture(scope="session")
def settings(pytestconfig: pytest.Config) -> Settings:
    """Patience with nothing, since nothing will happen."""
    real = state.of(pytestconfig).settings
    linux, windows = _impatient(real.timings.linux), _impatient(real.timings.windows)
    return replace(real, timings=replace(real.timings, linux=linux, windows=windows))


@pytest.fixture(scope="session")
def changes(cluster: Kube, settings: Settings, tell: Callable[[str], None]) -> Changes:
    """Describes changes."""
    return Changes(cluster, Ownership(settings.run_id, settings.worker), dry_run=True, tell=tell)


@pytest.fixture(scope="session")
def deployer(cluster: Kube, changes: Changes, facts: Facts, settings: Settings) -> Pods:
    """Describes pods."""
    return Pods(cluster, changes, facts, settings)


@pytest.fixture(scope="session")
def cast(deployer: Pods, placement: Placement) -> Iterator[Cast]:
    """Pods where they would be."""
    one = Cast(deployer, placement)
    yield one
    one.close()


@pytest.fixture(scope="session")
def still_allowed() -> Callable[[], object]:
    """Nothing is changed, so no lock is held."""
    return lambda: None


@pytest.fixture(scope="session")
def prober(tell: Callable[[str], None]) -> Silent:
    """Asks nobody."""
    return Silent("prober", tell)


@pytest.fixture
def expect(tell: Callable[[str], None]) -> Silent:
    """Expects nothing."""
    return ImaginedExpect("expect", tell)


@pytest.fixture(scope="session")
def stream_agents(tell: Callable[[str], None]) -> Silent:
    """Starts none."""
    return Silent("streams", tell)


@pytest.fixture
def streams(tell: Callable[[str], None]) -> Silent:
    """Opens none."""
    return Silent("streams", tell)


@pytest.fixture
def upheaval(tell: Callable[[str], None]) -> Silent:
    """Watches nothing."""
    return Silent("upheaval", tell)


@pytest.fixture
def command(tell: Callable[[str], None]) -> Silent:
    """Runs none."""
    return Silent("command", tell)


@pytest.fixture
def hosts(facts: Facts, cluster: Kube, tell: Callable[[str], None]) -> ImaginedHosts:
    """Looks into no node: takes Windows' networks for what they should be, and tells what would be removed."""
    return ImaginedHosts(tell, cluster, facts)


@pytest.fixture
def requires(tell: Callable[[str], None]) -> Silent:
    """Demands nothing: what is read is read by the real run."""
    return Silent("requires", tell)


def _impatient(real: OsTimings) -> OsTimings:
    return replace(
        real, pod_ready=MOMENT, image_pull=MOMENT, delete=MOMENT, policy_effect=MOMENT, service_effect=MOMENT,
        felix_restart=MOMENT, drain=MOMENT,
    )  # fmt: skip
