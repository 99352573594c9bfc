# SPDX-License-Identifier: Apache-2.0
"""The Linux agent's resolver reads resolv.conf and orders names as resolver libraries do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location(
    "probe_agent", Path(__file__).parents[2] / "manifests" / "probes" / "agent.py"
)
assert _spec
assert _spec.loader
agent = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(agent)

SEARCH = ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"]


@pytest.mark.parametrize(
    ("query", "record", "names"),
    [
        ("web", "A", ["web.ns.svc.cluster.local", "web.svc.cluster.local", "web.cluster.local", "web"]),
        ("web.other", "A", [*(f"web.other.{suffix}" for suffix in SEARCH), "web.other"]),
        ("a.b.c.d.e.f", "A", ["a.b.c.d.e.f", *(f"a.b.c.d.e.f.{suffix}" for suffix in SEARCH)]),
        ("web.ns.svc.cluster.local.", "A", ["web.ns.svc.cluster.local"]),
        ("10.0.0.5", "PTR", ["5.0.0.10.in-addr.arpa"]),
        ("5.0.0.10.in-addr.arpa.", "PTR", ["5.0.0.10.in-addr.arpa"]),
    ],
)  # fmt: skip
def test_names_are_tried_in_the_order_of_ndots(query: str, record: str, names: list[str]) -> None:
    assert agent.candidates(query, record, SEARCH, 5) == names


def test_resolv_conf_is_read_as_kubelets_write_it(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(
        "# by kubelet\nsearch a.test b.test\nnameserver 10.96.0.10 ; first\nnameserver 10.96.0.11\n"
        "options ndots:5 edns0\n"
    )
    assert agent.resolver_settings(str(path)) == (
        ["10.96.0.10", "10.96.0.11"],
        ["a.test", "b.test"],
        5,
    )


def test_a_resolv_conf_that_cannot_be_read_is_broken_and_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(agent.Ended) as caught:
        agent.resolver_settings(str(tmp_path / "missing"))
    assert caught.value.verdict == "BROKEN"


def test_a_compression_loop_is_garbled_not_endless() -> None:
    with pytest.raises(IndexError):
        agent.read_name(b"\xc0\x00", 0)


class Spoken:
    """An attempt whose network is a table of answers."""

    def __init__(self, answers: dict[tuple[str, str], Any]) -> None:
        self.answers, self.out = answers, dict[str, Any]()


def resolve(
    monkeypatch: pytest.MonkeyPatch, answers: dict[tuple[str, str], Any], query: str
) -> Any:
    asked: list[tuple[str, str]] = []

    def ask(attempt: Any, where: Any, name: str, record: str, tcp: bool) -> Any:
        asked.append((where[0], name))
        found = answers.get((where[0], name), (3, []))
        if isinstance(found, Exception):
            raise found
        return found
        yield

    monkeypatch.setattr(agent, "ask", ask)
    monkeypatch.setattr(agent, "resolver_settings", lambda: (["s1", "s2"], ["a.test"], 1))
    try:
        list(agent.resolve(Spoken(answers), query, "A", False, None))
    except agent.Ended as ended:
        return asked, ended.verdict, ended.detail
    return asked, "RESOLVED", ""


def test_a_server_that_does_not_answer_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = agent.Ended("DNS_FAILED", "no answer")
    asked, verdict, _ = resolve(
        monkeypatch, {("s1", "web.a.test"): silent, ("s2", "web.a.test"): (0, ["10.0.0.1"])}, "web"
    )
    assert (asked, verdict) == ([("s1", "web.a.test"), ("s2", "web.a.test")], "RESOLVED")


def test_a_server_that_knows_of_no_such_name_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, verdict, _ = resolve(monkeypatch, {}, "web")
    assert (asked, verdict) == ([("s1", "web.a.test"), ("s1", "web")], "NO_SUCH_NAME")


@pytest.mark.parametrize(("code", "rcode"), [(0, "NOERROR"), (3, "NXDOMAIN")])
def test_a_name_that_exists_without_such_a_record_is_told_from_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch, code: int, rcode: str
) -> None:
    _, _, detail = resolve(monkeypatch, {("s1", "web.a.test"): (code, [])}, "web")
    assert detail == f"no A record for web.a.test, web: {rcode}"


def test_an_error_with_one_name_is_not_covered_up_by_no_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing: dict[Any, Any] = {("s1", "web.a.test"): (2, []), ("s2", "web.a.test"): (2, [])}
    _, verdict, detail = resolve(monkeypatch, failing, "web")
    assert (verdict, detail) == ("DNS_FAILED", "SERVFAIL from s2:53 for web.a.test")
