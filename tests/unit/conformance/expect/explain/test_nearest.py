# SPDX-License-Identifier: Apache-2.0
"""Some findings explain a failed path better than the path itself: policies before Services, a lost
control before a denial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from conformance.errors import ControlBroken, Nonconformance, ProbeBroken
from conformance.expect.engine.decide import BrokenControl, Held
from conformance.expect.engine.path import Path, Rule, Try, Why, link
from conformance.expect.explain.between_nodes import Blamed, blamed
from conformance.expect.failure import failure
from conformance.expect.outcome import Outcome
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.facts import Fact
from conformance.model.observation import Observation, Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

FRIEND = a_workload("friend")
SERVER = a_workload("server", "windows", address="192.168.9.9", node="windows-2")
SERVICE = Target(
    host="10.96.0.7", port=80, protocol="tcp", path=Addressing.CLUSTER_IP, backends=(SERVER,), name="Service web",
    backend_port=8080,
)  # fmt: skip
COMPANY_WIDE = "GlobalNetworkPolicy company-wide (projectcalico.org/v3)"
NO_ROUTE = "route of node linux-1 to block 192.168.9.0/26 of node windows-2: no route"
NO_WAY_BACK = "route of node windows-2 to block 192.168.0.0/26 of node linux-1: no route"
WELL = Blamed()
UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT


def message(
    answer: Callable[[Attempt], Verdict],
    *policies: str,
    target: Target = SERVICE,
    control: bool = False,
    overlay: Blamed = WELL,
) -> list[str]:
    """Return the message about a path that should be open, without its tries and seconds, because
    these vary."""

    def asked(attempt: Attempt, _: int) -> Observation:
        return observation(attempt, answer(attempt))

    def there(pods: Sequence[Workload]) -> Sequence[str]:
        assert list(pods) in ([], [FRIEND, *target.backends]), (
            "a look that is to be remembered is about no pod"
        )
        return policies

    prober = ScriptedProber({"friend": [asked]})
    expect = an_expect(
        prober,
        "CONN-4",
        world=StandInWorld(policies_there=there, overlay=lambda source, target: overlay),
    )
    with pytest.raises(ControlBroken if control else Nonconformance) as failed:
        (expect.control if control else expect.reachable)(
            FRIEND, target, because="Services lead to their pods"
        )
    first, *rest = str(failed.value).splitlines()
    return [first.rpartition(" (")[0], *(line for line in rest if not line.startswith("  path "))]


def closed(attempt: Attempt) -> Verdict:
    return DROPPED


def only_the_service_is_closed(attempt: Attempt) -> Verdict:
    assert attempt.target is not None
    return DROPPED if attempt.target == SERVICE else UP


def test_a_policy_that_closes_the_backend_too_is_blamed_before_the_service() -> None:
    assert message(closed, COMPANY_WIDE) == [
        "CONN-4: clients on linux-1 do not reach pods on windows-2 through Services: expected "
        "CONNECTED, "
        f"observed TIMED_OUT, at the backend's own address too; policy {COMPANY_WIDE} may close it",
        "  because         Services lead to their pods",
        "  observed        TIMED_OUT after 5000 ms",
        "  own address     192.168.9.9:8080/tcp (server, windows, node windows-2): TIMED_OUT",
        f"  policies there  {COMPANY_WIDE}",
        f"  do              read policy {COMPANY_WIDE}; if it allows this path, see {WELL.see}",
    ]


def test_where_no_policy_is_found_the_path_between_the_nodes_is_looked_at_before_felix() -> None:
    first, *_, last = message(closed)
    assert first.endswith(
        "observed TIMED_OUT, at the backend's own address too: the path to the pod is closed, "
        "not only the Service"
    )
    assert last == (
        "  do           no policy was found that selects these pods: see CONN-3, VXLAN-2, VXLAN-3, VXLAN-4 and "
        "VXLAN-9 first; then read Felix' log on node windows-2"
    )


def test_of_several_policies_none_is_picked() -> None:
    first, *rest = message(closed, COMPANY_WIDE, "NetworkPolicy ns/deny (networking.k8s.io/v1)")
    assert first.endswith("at the backend's own address too; one of 2 policies there may close it")
    assert f"  policies there  {COMPANY_WIDE}; NetworkPolicy ns/deny (networking.k8s.io/v1)" in rest


def test_a_service_whose_backend_is_open_is_what_fails() -> None:
    first, *rest = message(only_the_service_is_closed, COMPANY_WIDE)
    assert first.endswith("observed TIMED_OUT")
    assert rest[2:] == [
        "  own address  192.168.9.9:8080/tcp (server, windows, node windows-2): CONNECTED: "
        "the pods can be reached, but not through the Service",
        "  do           compare kube-proxy's rules on node linux-1 with the Service's EndpointSlices: kubectl get pods "
        "-A -o wide --field-selector=spec.nodeName=linux-1",
    ]


def test_a_way_by_the_pods_own_address_names_the_policies_at_its_ends() -> None:
    first, *rest = message(closed, COMPANY_WIDE, target=SERVER.tcp(8080))
    assert first.endswith("observed TIMED_OUT")
    assert rest[2:] == [
        f"  policies there  {COMPANY_WIDE}",
        f"  do              read policy {COMPANY_WIDE}; if it allows this path, see {WELL.see}",
    ]


@pytest.mark.parametrize("silent", [DROPPED, Verdict.UNREACHABLE])
@pytest.mark.parametrize("control", [False, True], ids=["decision", "control"])
def test_a_path_between_nodes_that_lack_a_route_says_which(silent: Verdict, control: bool) -> None:
    first, *rest = message(
        lambda attempt: silent,
        target=SERVER.udp(8080),
        control=control,
        overlay=Blamed((NO_ROUTE, NO_WAY_BACK)),
    )
    assert first.endswith(f"expected CONNECTED, observed {silent}, while {NO_ROUTE}")
    assert rest[2:] == [
        f"  overlay   {NO_ROUTE}; {NO_WAY_BACK}",
        "  do        see VXLAN-2, VXLAN-3, VXLAN-4 and VXLAN-9; then restart calico-node on "
        "that node (on Windows this "
        "resets its pods' connections)",
    ]


def test_a_service_whose_backend_has_no_way_to_it_is_not_what_fails() -> None:
    first, *rest = message(closed, COMPANY_WIDE, overlay=Blamed((NO_ROUTE,)))
    assert first.endswith(f"at the backend's own address too, while {NO_ROUTE}")
    assert f"  policies there  {COMPANY_WIDE}" in rest
    assert f"  overlay         {NO_ROUTE}" in rest


def test_a_service_whose_backend_is_open_is_blamed_on_no_route() -> None:
    first, *_ = message(only_the_service_is_closed, overlay=Blamed((NO_ROUTE,)))
    assert first.endswith("observed TIMED_OUT")


def test_nodes_that_could_not_be_read_are_told() -> None:
    _, *rest = message(
        closed, target=SERVER.tcp(8080), overlay=Blamed(unread="what node linux-1 has is not known")
    )
    assert rest[2] == "  overlay   what node linux-1 has is not known"


SOUND = "session and route are right on both nodes"


def test_a_dead_path_whose_nodes_lack_nothing_says_so_and_what_is_left() -> None:
    overlay = Blamed(sound=SOUND, see="the fabric")
    first, *rest = message(closed, target=SERVER.tcp(8080), overlay=overlay)
    assert first.endswith(f"observed TIMED_OUT, while {SOUND}")
    assert rest[-1].endswith("see CONN-3, the fabric first; then read Felix' log on node windows-2")
    first, *_ = message(closed, COMPANY_WIDE, target=SERVER.tcp(8080), overlay=overlay)
    assert first.endswith("observed TIMED_OUT"), "a policy may close it"


class Nodes:
    """Each lacks the way to each other, or nothing."""

    def __init__(self, *, whole: bool = False) -> None:
        self.asked: list[tuple[str, str]] = []
        self._whole = whole

    def deviations(self, node: str, toward: str) -> dict[str, Fact[str]]:
        self.asked.append((node, toward))
        if self._whole:
            return {}
        if node == "windows-2":
            raise ProbeBroken("no HostProcess pod")
        return {f"route of node {node} to {toward}": Fact("no route", "its routes")}


def test_both_ends_are_read_there_and_back_and_one_that_cannot_be_read_hides_nothing() -> None:
    nodes = Nodes()
    found = blamed(nodes, FRIEND, SERVER.tcp(8080))
    assert nodes.asked == [("linux-1", "windows-2"), ("windows-2", "linux-1")]
    assert found.wrong == ("route of node linux-1 to windows-2: no route",)
    assert found.unread == "routes of node windows-2 could not be read: no HostProcess pod"


def test_within_one_node_no_overlay_is_read() -> None:
    nodes = Nodes()
    assert blamed(nodes, FRIEND, replace(SERVER, node=FRIEND.node).tcp(8080), SOUND) == Blamed()
    assert nodes.asked == []


def test_only_where_both_ends_were_read_all_is_as_it_should_be() -> None:
    assert blamed(Nodes(whole=True), FRIEND, SERVER.tcp(8080), SOUND) == Blamed(sound=SOUND)
    assert blamed(Nodes(), FRIEND, SERVER.tcp(8080), SOUND).sound == ""


def test_a_control_by_a_service_blames_the_policy_as_well() -> None:
    first, *_ = message(closed, COMPANY_WIDE, control=True)
    assert first.startswith(
        "CONN-4: clients on linux-1 do not reach pods on windows-2 through Services: control "
        "failed: expected"
    )
    assert first.endswith(f"at the backend's own address too; policy {COMPANY_WIDE} may close it")


def test_what_answers_is_blamed_on_no_policy() -> None:
    def refused(attempt: Attempt) -> Verdict:
        return Verdict.REFUSED

    *_, do = message(refused, COMPANY_WIDE)
    assert do.startswith("  do        compare kube-proxy's rules on node linux-1"), (
        "who leads to pods that listen?"
    )
    *_, do = message(refused, target=SERVER.tcp(8080))
    assert do.endswith("look at the server's pod and its log: kubectl logs -n ns server")


NODE_PORT = replace(
    SERVICE, path=Addressing.NODE_PORT, host="10.0.0.13", port=30080, name="NodePort of web"
)


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (
            "10.0.0.12",
            "compare Get-HnsPolicyList and kube-proxy's log on node windows-2 with the Service's EndpointSlices",
        ),
        (
            "10.0.0.11",
            "compare kube-proxy's rules on node linux-1 with the Service's EndpointSlices",
        ),
        (
            "10.0.0.13",
            "compare kube-proxy's log and rules (Windows: Get-HnsPolicyList) on the called node, whose address is 10.0.0.13",
        ),
    ],
    ids=["the server's node", "the client's node", "another node"],
)
def test_of_a_node_port_the_node_is_looked_at_whose_address_was_called(
    address: str, advice: str
) -> None:
    server = replace(SERVER, node_address="10.0.0.12")
    called = replace(NODE_PORT, host=address, backends=(server,))

    def only_the_node_port_is_closed(attempt: Attempt) -> Verdict:
        return DROPPED if attempt.target == called else UP

    *_, do = message(only_the_node_port_is_closed, target=called)
    assert do.startswith(f"  do           {advice}")


def test_a_backend_that_cannot_be_asked_changes_no_verdict() -> None:
    def breaks(attempt: Attempt) -> Verdict:
        if attempt.target != SERVICE:
            raise ProbeBroken("the agent is gone")
        return DROPPED

    first, *_ = message(breaks)
    assert first.endswith("observed TIMED_OUT")


def path(source: Workload, *verdicts: Verdict, want: bool) -> Path:
    """A path whose attempts showed these."""
    patience = load_timings().of(source.os)
    attempt = Attempt(
        source=source, target=SERVER.tcp(8080), kind=Kind.TCP, give_up_after=patience.tcp_give_up
    )
    made = Path(attempt, want, Rule.of(patience, [patience], within=30.0))
    for moment, verdict in enumerate(verdicts):
        asked = made.ask(float(moment))
        made.answer(asked, observation(attempt, verdict), at=moment, error=0.0, came=moment + 0.1)
    return made


def expecting() -> Expect:
    prober = ScriptedProber({})
    return an_expect(prober, "POL-1")


def test_a_lost_control_says_which_it_is_and_what_it_saw() -> None:
    stranger = a_workload("stranger", node="linux-2")
    denied, control = (
        path(stranger, *[DROPPED] * 4, want=False),
        path(FRIEND, DROPPED, UP, DROPPED, UP, want=True),
    )
    link([denied, control])
    outcomes = [
        Outcome(
            denied, BrokenControl(Why.CONTROL), is_control=False, because="only friends may enter"
        ),
        Outcome(control, Held(tuple(control.tries)), is_control=True),
    ]
    broken = failure(expecting(), outcomes, seconds=12.0)
    assert isinstance(broken, ControlBroken)
    assert str(broken).splitlines()[:9] == [
        "POL-1: clients on linux-1 do not reach pods on windows-2: control failed: expected CONNECTED close to each "
        "time-out, observed TIMED_OUT 2 times, CONNECTED 2 times, last CONNECTED (4 tries, 12.0 s), 1 of 2 paths: 2 of "
        "4 tries connected, so the denial of ns/stranger cannot be judged",
        "  path        ns/friend (linux, node linux-1) -> 192.168.9.9:8080/tcp (server, windows, node windows-2)",
        "  because     only friends may enter",
        "  observed    CONNECTED after 12 ms",
        "  beside      1 of 2 paths as expected",
        "  by node     INCONCLUSIVE linux-2 -> windows-2; 1 other pair of nodes as expected",
        "  control of  ns/stranger (linux, node linux-2) -> 192.168.9.9:8080/tcp (server, windows, node windows-2)  "
        "expected TIMED_OUT, observed TIMED_OUT",
        "  so          a source or a server without a network could not be distinguished from a denial",
        "  do          look for packet loss at ns/friend and on node windows-2",
    ]
    assert broken.control == control.attempt.label


def test_a_control_that_always_connected_came_too_seldom_and_nothing_is_said_of_loss() -> None:
    stranger = a_workload("stranger", node="linux-2")
    denied, control = path(stranger, *[DROPPED] * 4, want=False), path(FRIEND, UP, UP, want=True)
    link([denied, control])
    broken = failure(
        expecting(),
        [Outcome(denied, BrokenControl(Why.CONTROL), is_control=False)],
        seconds=17.3,
    )
    first, *rest = str(broken).splitlines()
    assert first.endswith(
        "observed CONNECTED (2 tries, 17.3 s): every try connected, but there were too few "
        "tries to cover "
        "every time-out, so the denial of ns/stranger cannot be judged"
    )
    assert rest[-1].startswith(
        "  do          look at the load of node linux-1 and of the machine that runs the suite"
    )
    assert not any("packet loss" in line for line in rest)


def test_by_node_a_node_port_is_the_node_s_that_was_called() -> None:
    called = a_workload("there", node="linux-2", node_address="10.0.0.13")
    closed_one = path(FRIEND, *[DROPPED] * 4, want=True)
    closed_one.attempt = replace(closed_one.attempt, target=replace(NODE_PORT, at=called))
    assert Outcome(closed_one, Held(()), is_control=False).nodes == "linux-1 -> linux-2"


@pytest.mark.parametrize(
    ("verdicts", "lost"),
    [
        ([UP, UP], ""),
        (
            [DROPPED, DROPPED, UP, UP],
            "",
        ),  # a new Service's rules may be later than its first attempts
        ([UP, DROPPED, UP, UP], "; 1 attempt before got no answer"),
    ],
    ids=["none", "before the first connection", "after it"],
)
def test_an_open_path_reports_attempts_that_were_lost_after_it_had_worked(
    verdicts: list[Verdict], lost: str
) -> None:
    asked = Attempt(source=FRIEND, kind=Kind.TCP, give_up_after=1.0, target=SERVICE)
    rule = Rule(agree=2, agree_span=0.0, hold=0.0, near=1.0, within=9.0)
    tries = [Try(float(at), observation(asked, verdict)) for at, verdict in enumerate(verdicts)]
    path = Path(asked, True, rule, tries, steady=True)
    outcome = Outcome(path, Held(tuple(tries[-2:])), False, because="it serves")
    assert outcome.reason.partition("got no answer")[0].endswith(lost.removesuffix("got no answer"))
    assert ("got no answer" in outcome.reason) is bool(lost)
