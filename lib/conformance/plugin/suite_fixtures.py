"""Fixtures of the suites: pods, services, probes, expectations, policies, and what the cluster's objects say.

Puts the judge's parts together; decides nothing.  Pods are the worker's and shared by its tests, expectations and
policies are each test's own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conformance.cluster import alive
from conformance.cluster.bundle import collect
from conformance.cluster.calico_api import CalicoApi
from conformance.cluster.journal import Healers, Journal, Journalled, Outcome
from conformance.cluster.objects import CalicoObjects
from conformance.cluster.remedies import Remedies
from conformance.errors import EnvironmentBroken, SuiteTrouble
from conformance.expect.addresses import Addresses
from conformance.expect.arrival import Arrival
from conformance.expect.beyond import Beyond
from conformance.expect.builds import Builds
from conformance.expect.commands import Commands
from conformance.expect.figures import PolicyChange
from conformance.expect.known_issue import KnownIssue
from conformance.expect.overlay import Overlay
from conformance.expect.pages import Pages
from conformance.expect.readings import Readings
from conformance.expect.service_source import ServiceSource
from conformance.expect.sizes import Sizes
from conformance.expect.traffic import Context, Expect
from conformance.expect.windows_nodes import WindowsNodes
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.codec import to_plain
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts, NodeFacts
from conformance.plugin import state
from conformance.plugin.healers import healers_of
from conformance.plugin.policies import Policy
from conformance.plugin.progress import Progress
from conformance.plugin.recorder import Recorder
from conformance.plugin.rundir import RunDirectory
from conformance.plugin.transcript import ExecTranscript, Witnessed
from conformance.pods.cast import Cast
from conformance.pods.deploy import Pods
from conformance.pods.farewell import Farewell
from conformance.pods.newcomer import Newcomer
from conformance.pods.placement import Placement
from conformance.pods.prepull import Prepull
from conformance.pods.services import Service, Services, cluster_domain
from conformance.pods.webserver import WebServer
from conformance.probe.literal import Literal
from conformance.probe.prober import Limits, Prober
from conformance.probe.warmup import warm_up
from conformance.report.attach import Attachments
from conformance.report.diagnostics import Diagnostics, Failure
from conformance.settings import Settings

# --- the worker's -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def changes(cluster: Kube, settings: Settings, run_directory: RunDirectory) -> Changes:
    """How the worker changes the cluster."""
    return Changes(cluster, Ownership(settings.run_id, settings.worker, alive.sign(run_directory.alive)))


@pytest.fixture(scope="session")
def calico_api(cluster: Kube, changes: Changes, settings: Settings, pytestconfig: pytest.Config) -> CalicoApi:
    """How the worker writes Calico's objects."""
    connection = state.of(pytestconfig).connection
    kubeconfig = Path(connection.kubeconfig) if connection and connection.kubeconfig else None
    return CalicoApi(
        cluster,
        changes,
        calicoctl=settings.calicoctl,
        kubeconfig=kubeconfig,
        context=connection.context if connection else None,
    )


@pytest.fixture(scope="session")
def placement(facts: Facts, settings: Settings) -> Placement:
    """Where the worker's pods go; workers take turns."""
    number = re.search(r"\d+$", settings.worker)
    return Placement(facts, settings.tolerations, int(number[0]) if number else 0)


@pytest.fixture(scope="session")
def deployer(
    *,
    cluster: Kube,
    changes: Changes,
    facts: Facts,
    placement: Placement,
    settings: Settings,
    pytestconfig: pytest.Config,
) -> Iterator[Pods]:
    """Makes pods, and removes the worker's namespaces at its end."""
    progress = Progress(pytestconfig, settings.timings.run.progress_every)
    pods = Pods(cluster, changes, facts, settings, progress)
    run_state = state.of(pytestconfig)
    if run_state.run and not run_state.choice.own_lab:  # a lab has its images
        nodes = [*placement.usable("linux"), *placement.usable("windows")]
        prepull = Prepull(cluster, changes, settings, progress)
        run_state.run.once("prepull", lambda: _pull(prepull, nodes, progress))
    yield pods
    if not settings.keep:
        pods.remove()


@pytest.fixture(scope="session")
def transcript(run_directory: RunDirectory, settings: Settings) -> ExecTranscript:
    """What the worker asks of pods, word for word."""
    return ExecTranscript(run_directory.path / f"transcript-{settings.worker}.txt")


@pytest.fixture(scope="session")
def prober(
    *,
    cluster: Kube,
    run_directory: RunDirectory,
    settings: Settings,
    transcript: ExecTranscript,
    pytestconfig: pytest.Config,
) -> Iterator[Prober]:
    """Asks pods."""
    workers = getattr(pytestconfig, "workerinput", {}).get("workercount", 1)
    limits = Limits(share=max(1, Limits.agents // workers))
    one = Prober(cluster, run_directory.shared, settings, transcript=transcript.exec, limits=limits)
    epoch = state.of(pytestconfig).epoch
    epoch.register(one.revalidate)
    yield one
    epoch.forget(one.revalidate)
    one.close()
    run_directory.write_probing(settings.worker, to_plain(one.used()))


@pytest.fixture(scope="session")
def domain(cluster: Kube) -> str:
    """The cluster's DNS domain."""
    return cluster_domain(cluster)


@pytest.fixture(scope="session")
def cast(
    *,
    deployer: Pods,
    placement: Placement,
    prober: Prober,
    diagnostics: Diagnostics,
    domain: str,
    pytestconfig: pytest.Config,
) -> Iterator[Cast]:
    """The worker's pods; agents end before the pods do."""

    def warm(client: Workload) -> None:
        warm_up(prober, [client], None, f"kubernetes.default.svc.{domain}.", timings=deployer.settings.timings)

    one = Cast(deployer, placement, warm)
    diagnostics.register(_bundle(deployer.kube, one))
    run_state = state.of(pytestconfig)
    run_state.epoch.register(one.revalidate)
    run_state.background.append(one.under_way)
    yield one
    run_state.background.remove(one.under_way)
    run_state.epoch.forget(one.revalidate)
    one.close()


@pytest.fixture(scope="session")
def services(changes: Changes, cast: Cast, domain: str) -> Services:
    """Services over the worker's pods."""
    return Services(changes, cast, domain)


@pytest.fixture(scope="session")
def journal(cluster: Kube, changes: Changes, settings: Settings) -> Journal:
    """Where the run writes down what it changes beyond its own namespaces."""
    return Journal(cluster, changes.run, within=settings.timings.run.journal)


@pytest.fixture(scope="session")
def healers(changes: Changes, facts: Facts, settings: Settings) -> Healers:
    """What undoes procedures."""
    return healers_of(changes, facts, settings)


@pytest.fixture(scope="session")
def still_allowed(pytestconfig: pytest.Config) -> Callable[[], object]:
    """Raises when this run may change nothing beyond its namespaces any more; asked before each such change."""
    return state.of(pytestconfig).lock().check


# --- each test's ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pods(cast: Cast, changes: Changes, context: Context, record: Recorder) -> Iterator[Cast]:
    """The worker's pods as they are now, for one test; what it used is told to the report."""
    cast.used, cast.claims = {}, context.claims
    if not changes.dry_run:  # then there are none
        cast.refresh()
    yield cast
    record.touched(sorted({one.os for one in cast.used.values()}))


@pytest.fixture
def policy(
    request: pytest.FixtureRequest, cast: Cast, changes: Changes, settings: Settings, attach: Attachments
) -> Iterator[Policy]:
    """The policies of the manifest that the test names; removed after it, and that is verified."""
    mark = request.node.get_closest_marker("manifest")
    if mark is None:
        raise pytest.UsageError(f"{request.node.nodeid} asks for a policy and names no manifest(...)")
    one = Policy(
        mark.args[0],
        cast.namespace,
        changes,
        functools.partial(request.getfixturevalue, "calico_api"),
        removed_within=settings.timings.linux.delete,
        attach=attach.yaml,
    )
    yield one
    one.remove()


@pytest.fixture
def journalled(
    *,
    changes: Changes,
    journal: Journal,
    healers: Healers,
    still_allowed: Callable[[], object],
    attach: Attachments,
    pytestconfig: pytest.Config,
) -> Iterator[Journalled]:
    """Changes beyond the run's namespaces, put back after the test, and that is verified."""
    one = Journalled(changes, journal, healers, still_allowed)
    yield one
    with state.of(pytestconfig).putting_back():
        done = one.restore()
        if done:
            attach.text("restored", "\n".join(map(str, done)))
        trouble = [str(each) for each in done if each.outcome in (Outcome.CONFLICT, Outcome.FAILED)]
        if trouble:
            raise EnvironmentBroken("\n".join(trouble))


@pytest.fixture
def context(request: pytest.FixtureRequest, attach: Attachments, record: Recorder) -> Context:
    """What messages and reports need to know about the test."""
    claims = dict.fromkeys(mark.args[0] for mark in request.node.iter_markers("verifies"))

    def in_force() -> Sequence[str]:
        return request.getfixturevalue("policy").in_force() if "policy" in request.fixturenames else ()

    def newest_change() -> PolicyChange | None:
        if "policy" not in request.fixturenames:
            return None
        one: Policy = request.getfixturevalue("policy")
        return one.change

    return Context(
        claims=tuple(claims),
        policies=in_force,
        attach=attach.text,
        record=lambda name, value: record(**{name: value}),
        draw=attach.svg,
        change=newest_change,
        figures=record.figures,
        keep=lambda seen: record.decided(*seen),
    )


@pytest.fixture
def witness(transcript: ExecTranscript, attach: Attachments) -> ExecTranscript:
    """The transcript, of which the report gets what this test asks."""
    transcript.take()
    attach.at_end("exec transcript", transcript.take)
    return transcript


@pytest.fixture
def expect(prober: Prober, settings: Settings, context: Context, witness: ExecTranscript) -> Expect:
    """Expectations about traffic."""
    return Expect(Witnessed(prober, witness), settings.timings, context)


@pytest.fixture
def overlay(expect: Expect) -> Overlay:
    """Expectations about what carries traffic between nodes."""
    return Overlay(expect)


@pytest.fixture
def command(cluster: Kube, prober: Prober, settings: Settings, context: Context, witness: ExecTranscript) -> Commands:
    """The demo's literal commands."""
    return Commands(
        Literal(cluster, prober.slots, transcript=witness.literal, counts=prober.counts).run, settings.timings, context
    )


@pytest.fixture
def beyond(expect: Expect, command: Commands, settings: Settings, record: Recorder) -> Beyond:
    """Expectations about ping, within the cluster and beyond it."""
    return Beyond(expect, command, settings.external_target, record.lifted)


@pytest.fixture
def requires(context: Context) -> Readings:
    """Expectations about what was read."""
    return Readings(context)


@pytest.fixture
def webserver(deployer: Pods, placement: Placement, context: Context) -> Iterator[WebServer]:
    """The demo's Windows web server, not yet started."""
    one = WebServer(deployer, placement, context.claims)
    yield one
    one.remove()


@pytest.fixture
def newcomer(deployer: Pods, placement: Placement) -> Iterator[Newcomer]:
    """A Windows pod that has yet to come."""
    one = Newcomer(deployer, placement)
    yield one
    one.remove()


@pytest.fixture
def farewell(deployer: Pods, placement: Placement) -> Farewell:
    """A namespace to fill and to delete; whatever a test leaves of it goes with the worker's others."""
    return Farewell(deployer, placement)


@pytest.fixture
def known_issue(expect: Expect, record: Recorder) -> KnownIssue:
    """Expectations about what can happen."""
    return KnownIssue(expect, record.not_observed)


@pytest.fixture
def arrival(expect: Expect, record: Recorder) -> Arrival:
    """Expectations about a pod's first seconds."""
    return Arrival(expect, record.not_observed)


@pytest.fixture
def page(expect: Expect) -> Pages:
    """Expectations about what web servers say."""
    return Pages(expect)


@pytest.fixture
def sizes(expect: Expect, record: Recorder) -> Sizes:
    """Expectations about the size of packets."""
    return Sizes(expect, record.lifted)


@pytest.fixture
def windows_nodes(facts: Facts, placement: Placement) -> WindowsNodes:
    """Windows nodes by what their Services do with sources."""
    return WindowsNodes(facts, placement)


@pytest.fixture
def source(expect: Expect, facts: Facts, record: Recorder) -> Callable[[Workload, Workload, Service], ServiceSource]:
    """Expectations about the source of a client's way through a Service: ``source(client, stranger, service)``."""
    return lambda client, stranger, service: ServiceSource(expect, facts, record.lifted, client, stranger, service)


@pytest.fixture
def builds(facts: Facts) -> Builds:
    """What this version of Calico lists."""
    return Builds(facts)


@pytest.fixture
def addresses(facts: Facts) -> Addresses:
    """Source addresses that servers may see."""
    return Addresses(facts)


@pytest.fixture
def calico(cluster: Kube, facts: Facts) -> CalicoObjects:
    """What Calico's and Kubernetes' objects say."""
    return CalicoObjects(cluster, facts)


@pytest.fixture
def remedy(cluster: Kube, facts: Facts) -> Remedies:
    """The commands that mend a cluster, as they work on this one."""
    return Remedies(cluster, facts)


# --- how --------------------------------------------------------------------------------------------------------------


def _pull(prepull: Prepull, nodes: Sequence[NodeFacts], progress: Progress) -> None:
    """Pull images; what cannot be pulled is told here, and decided by the tests whose pods need it."""
    try:
        prepull.run(nodes)
    except SuiteTrouble as trouble:
        progress.tell(f"pulling images first: {str(trouble).splitlines()[0]}")


def _bundle(kube: Kube, cast: Cast) -> Callable[[Failure], dict[str, str]]:
    def bundle(failure: Failure) -> dict[str, str]:
        used = cast.used.values()
        return collect(
            kube,
            namespaces=sorted({one.namespace for one in used}),
            nodes=sorted({one.node for one in used}),
            node_pods=[one for one in used if one.host_network and one.os == "linux"],
        )

    return bundle
