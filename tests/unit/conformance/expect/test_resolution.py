# SPDX-License-Identifier: Apache-2.0
"""Names that do not resolve in time: the message says whether DNS is slow or silent, and which of its pods."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    ProbeBroken,
    UsageProblem,
)
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods.cluster_dns import ClusterDns
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

FRIEND = a_workload("friend")
ADDRESS = "10.96.0.7"
FIRST = a_workload("coredns-1", address="192.168.1.4", node="linux-2")
SECOND = a_workload("coredns-2", address="192.168.2.4", node="linux-3")
KNOWN = "kubernetes.default.svc.cluster.local."
SILENT = "no answer from 10.96.0.10:53"


class Dns(ClusterDns):
    """Of a cluster that is not asked which pods it has."""

    def __init__(self) -> None:
        no_cluster: Any = None
        super().__init__(no_cluster, "cluster.local")

    def pods(self) -> list[Target]:
        return [FIRST.udp(53), SECOND.udp(53)]


class NoDns(Dns):
    def pods(self) -> list[Target]:
        raise MissingCapability("no Ready pod", "-")


def answered(attempt: Attempt, seconds: float = 0.003) -> Observation:
    """The server answers after so many seconds, where the source waits that long."""
    if seconds > attempt.give_up_after:
        seen = observation(attempt, Verdict.DNS_FAILED, detail=SILENT)
        return replace(seen, seconds=attempt.give_up_after)
    return replace(observation(attempt, Verdict.RESOLVED), answers=(ADDRESS,), seconds=seconds)


def failing(
    answer: Callable[[Attempt, int], Observation],
    dns: Dns | None = None,
    at: tuple[Workload, ...] = (),
    gone: str = "",
    fails: type[Exception] = Nonconformance,
) -> tuple[str, list[Decision]]:
    """The message, and what was decided."""
    prober = ScriptedProber({"friend": [answer]}, restarted={gone})
    kept: list[Decision] = []
    expect = an_expect(prober, "CONN-6", kept=kept, world=StandInWorld(dns=lambda: dns))
    with pytest.raises(fails) as failed:
        expect.resolves(
            FRIEND, "web.demo.svc.cluster.local", [ADDRESS], because="DNS knows every Service",
            at=[server.udp(53) for server in at],
        )  # fmt: skip
    return str(failed.value), kept


def test_a_name_that_nobody_asks_for_is_refused() -> None:
    with pytest.raises(
        UsageProblem, match=r"no client can resolve web: the group of clients is empty"
    ):
        an_expect(ScriptedProber({})).resolves([], "web", [ADDRESS], because="DNS knows it")


def test_an_answer_in_seconds_is_named_slow_with_its_seconds() -> None:
    text, decided = failing(lambda attempt, _: answered(attempt, 3.1), Dns())
    assert text.splitlines() == [
        "CONN-6: linux-1 to DNS A web.demo.svc.cluster.local: expected RESOLVED to 10.96.0.7 "
        "within 2.5 s, observed RESOLVED to 10.96.0.7, "
        f"slow: answered after 3.1 s ({text.split('(')[1].split(')')[0]})",
        "  path         ns/friend (linux, node linux-1) -> DNS A web.demo.svc.cluster.local",
        "  because      DNS knows every Service",
        "  observed     RESOLVED after 3100 ms; answers 10.96.0.7",
        f"  asked again  waiting up to 15 s: {KNOWN} is answered after 3.10 s, slow",
        "  DNS pods     ns/coredns-1 (linux, node linux-2) answers after 3.10 s, slow; "
        "ns/coredns-2 (linux, node linux-3) answers after 3.10 s, slow",
        "  do           look at the load of the DNS pods, and for packet loss between node "
        "linux-1 and their nodes",
    ]
    assert [seen.reason for seen in decided] == [
        "ns/friend (linux, node linux-1) -> DNS A web.demo.svc.cluster.local  observed RESOLVED to 10.96.0.7, "
        "slow: answered after 3.1 s"
    ]


def test_an_answer_that_comes_after_the_question_was_given_up_is_slow_and_no_silence() -> None:
    text, _ = failing(lambda attempt, _: answered(attempt, 7.0), Dns())
    first, *_ = text.splitlines()
    assert (
        f"expected RESOLVED to 10.96.0.7 within 2.5 s, observed DNS_FAILED ({SILENT} within 5 "
        f"s); a later query for {KNOWN} "
        "is answered after 7.0 s ("
    ) in first


def test_the_dns_pod_that_is_silent_is_named_beside_the_one_that_answers() -> None:
    def half(attempt: Attempt, number: int) -> Observation:
        direct = attempt.target.host if attempt.target else ""
        silent = direct == SECOND.address or (not direct and number % 2 == 0)
        return answered(attempt, 99.0 if silent else 0.003)

    text, _ = failing(half, Dns())
    first, *rest = text.splitlines()
    assert "DNS_FAILED" in first
    assert "; silent DNS pods: ns/coredns-2 (linux, node linux-3) (" in first
    assert rest[-1] == (
        "  do           the Service sends a share of all queries to ns/coredns-2 (linux, node linux-3): "
        "look at the log and the node of each pod named here"
    )


def test_a_dead_backend_beside_dns_pods_that_answer_is_no_search_list() -> None:
    """One lucky question about another name says nothing of the Service."""

    def a_third(attempt: Attempt, number: int) -> Observation:
        lucky = attempt.target or attempt.query == KNOWN
        return answered(attempt, 0.003 if lucky or number % 3 else 99.0)

    text, _ = failing(a_third, Dns())
    first, *_, last = text.splitlines()
    assert ", for a share of all queries to the DNS Service (" in first
    assert "the DNS Service has a backend on node linux-1 that is dead or gone" in last
    assert "search list" not in text


def test_where_no_dns_pod_answers_none_is_singled_out() -> None:
    text, _ = failing(lambda attempt, _: answered(attempt, 99.0), Dns())
    first, *_, last = text.splitlines()
    assert "observed DNS_FAILED (" in first
    assert last.endswith(
        "no DNS pod answers: look at the network and at policies between node linux-1 and their nodes"
    )


def test_where_each_dns_pod_answers_the_service_is_what_fails() -> None:
    text, _ = failing(
        lambda attempt, _: answered(attempt, 0.003 if attempt.target else 99.0), Dns()
    )
    assert text.endswith(
        "each DNS pod answers by its own address: look at kube-proxy of node linux-1, and at policies"
    )


def test_a_dns_pod_that_is_asked_itself_is_the_target_of_the_decision() -> None:
    def second(attempt: Attempt, _: int) -> Observation:
        silent = attempt.target is not None and attempt.target.host == SECOND.address
        return answered(attempt, 99.0 if silent else 0.003)

    text, decided = failing(second, Dns(), at=(FIRST, SECOND))
    assert (
        "linux-1 to DNS A web.demo.svc.cluster.local at linux-3 (53/udp): expected"
        in text.splitlines()[0]
    )
    assert [(seen.target, str(seen.verdict)) for seen in decided] == [
        ("linux-2", "CONFIRMED"),
        ("linux-3", "VIOLATED"),
    ]


def test_a_dns_pod_that_was_rolled_meanwhile_or_a_client_says_nothing_of_names() -> None:
    def second(attempt: Attempt, _: int) -> Observation:
        to_second = attempt.target is not None and attempt.target.host == SECOND.address
        return answered(attempt, 99.0 if to_second else 0.003)

    for gone in ("coredns-2", "friend"):
        text, decided = failing(
            second, Dns(), at=(FIRST, SECOND), gone=gone, fails=EnvironmentBroken
        )
        assert re.match(rf"CONN-6  pod ns/{gone} .* restarted 1 time; affected", text)
        assert [one.verdict for one in decided] == [
            ClaimVerdict.CONFIRMED,
            ClaimVerdict.INCONCLUSIVE,
        ]
    failing(second, Dns(), at=(FIRST, SECOND), gone="coredns-1")


def test_a_short_name_that_nobody_knows_says_what_pods_are_to_search() -> None:
    def unknown(attempt: Attempt, _: int) -> Observation:
        return observation(
            attempt,
            Verdict.NO_SUCH_NAME,
            detail="no A record for web.default.svc.cluster.local, web",
        )

    text, _ = failing(unknown, Dns())
    assert text.splitlines()[3:] == [
        "  observed  NO_SUCH_NAME after 12 ms; no A record for web.default.svc.cluster.local, web",
        "  do        compare the pod's DNS search list (Linux: /etc/resolv.conf; Windows: ipconfig /all) with "
        "NAMESPACE.svc.DOMAIN, svc.DOMAIN and DOMAIN; Windows has only the first",
    ]


def test_a_name_that_dns_refuses_while_it_answers_others_is_no_fault_of_the_servers() -> None:
    def refused(attempt: Attempt, _: int) -> Observation:
        if attempt.query == KNOWN:
            return answered(attempt)
        return observation(attempt, Verdict.DNS_FAILED, detail="REFUSED from 10.96.0.10:53 for web")

    text, _ = failing(refused, Dns())
    first, *_, last = text.splitlines()
    assert f"observed DNS_FAILED (REFUSED from 10.96.0.10:53), while {KNOWN} is answered (" in first
    assert last.startswith("  do           compare the pod's DNS search list (")


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ("REFUSED from 10.96.0.10:53 for web", True),
        ("SERVFAIL from 10.96.0.10:53 for web", True),
        ("REFUSED from 10.96.0.10:53 for web.default.svc.cluster.local", False),
        ("no answer from 10.96.0.10:53 for web", False),
    ],
)
def test_a_name_that_is_not_to_be_found_may_be_refused_where_it_is_bare(
    detail: str, found: bool
) -> None:
    def answer(attempt: Attempt, _: int) -> Observation:
        return observation(attempt, Verdict.DNS_FAILED, detail=detail)

    prober = ScriptedProber({"friend": [answer]})
    expect = an_expect(prober, "CONN-6")
    with nullcontext() if found else pytest.raises(Nonconformance):
        expect.resolves(FRIEND, "web", [], because="it is of another namespace")


@pytest.mark.parametrize("dns", [None, NoDns()])
def test_what_cannot_be_found_out_about_dns_changes_no_verdict(dns: Dns | None) -> None:
    def breaks(attempt: Attempt, _: int) -> Observation:
        if attempt.query == KNOWN:
            raise ProbeBroken("the agent is gone")
        return answered(attempt, 99.0)

    text, _ = failing(breaks, dns)
    assert "observed DNS_FAILED (" in text
    assert text.endswith("and read CoreDNS' log in kube-system")


def test_a_slow_answer_to_a_name_on_the_way_to_a_server_is_named_slow() -> None:
    server = replace(FIRST.tcp(80), host="web.demo.svc.cluster.local")

    def slow(attempt: Attempt, _: int) -> Observation:
        if attempt.query:
            return answered(attempt, 7.0)
        return observation(attempt, Verdict.DNS_FAILED, detail=SILENT)

    prober = ScriptedProber({"friend": [slow]})
    expect = an_expect(prober, "CONN-6")
    with pytest.raises(Nonconformance) as failed:
        expect.reachable(FRIEND, server, because="DNS knows every Service")
    assert (
        f"observed DNS_FAILED ({SILENT} within 5 s): web.demo.svc.cluster.local does not resolve, so nothing was sent; "
        "now the name resolves to 10.96.0.7, slow: answered after 7.0 s ("
    ) in str(failed.value)


def test_the_dns_pod_that_tells_otherwise_is_named_with_what_it_tells() -> None:
    def stale(attempt: Attempt, number: int) -> Observation:
        direct = attempt.target.host if attempt.target else ""
        wrong = direct == SECOND.address or (not direct and number % 2 == 0)
        return (
            replace(answered(attempt), answers=("10.96.0.9", "10.96.0.8"))
            if wrong
            else answered(attempt)
        )

    text, _ = failing(stale, Dns())
    first, *rest = text.splitlines()
    assert (
        "; DNS pods that answer differently from the rest: ns/coredns-2 (linux, node linux-3) ("
        in first
    )
    assert (
        "  DNS pods  ns/coredns-2 (linux, node linux-3): RESOLVED to 10.96.0.8, 10.96.0.9" in rest
    )


def test_where_every_dns_pod_tells_the_same_none_is_singled_out() -> None:
    text, _ = failing(lambda attempt, _: replace(answered(attempt), answers=("10.96.0.9",)), Dns())
    assert "answers otherwise" not in text


def without_aaaa(rcode: str) -> Expect:
    def answer(attempt: Attempt, _: int) -> Observation:
        return replace(
            observation(attempt, Verdict.NO_SUCH_NAME, detail=f"no record: {rcode}"), rcode=rcode
        )

    prober = ScriptedProber({"friend": [answer]})
    return an_expect(prober, "CONN-6")


def test_an_empty_answer_is_right_for_the_aaaa_of_a_name_that_has_only_a() -> None:
    without_aaaa("NOERROR").resolves(FRIEND, "web.demo", [], record="AAAA", because="it exists")


def test_a_name_that_exists_is_not_to_be_denied_because_it_has_no_aaaa() -> None:
    with pytest.raises(Nonconformance) as failed:
        without_aaaa("NXDOMAIN").resolves(
            FRIEND, "web.demo", [], record="AAAA", because="it exists"
        )
    first, *_, last = str(failed.value).splitlines()
    assert (
        "expected an empty answer (NOERROR, no AAAA), observed NO_SUCH_NAME (NXDOMAIN) (" in first
    )
    assert first.endswith(": web.demo has an A record, which NXDOMAIN denies")
    assert "look for template or rewrite rules in CoreDNS' Corefile" in last


@pytest.mark.parametrize("rcode", ["NXDOMAIN", "NOERROR"])
def test_a_name_that_does_not_exist_may_be_denied(rcode: str) -> None:
    without_aaaa(rcode).resolves(FRIEND, "nobody.demo", [], because="there is no such name")
