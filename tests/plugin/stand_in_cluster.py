# SPDX-License-Identifier: Apache-2.0
"""A provider without a cluster: it takes facts from the environment, and records which calls it
receives."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, EnvironmentBroken, UsageProblem
from conformance.facts.room import Room
from conformance.foreign.beforehand import Beforehand
from conformance.model.change import PutBack
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision, Half
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.model.installed import Installed
from conformance.plugin.judge import recorder
from conformance.plugin.judge.stash import PLANNED
from conformance.run.directory import RunDirectory
from conformance.run.provider import Connection, Inspection


def node(
    name: str,
    os_name: str,
    build: tuple[int, int] | None = None,
    dsr: bool | None = True,
    **more: Any,
) -> NodeFacts:
    kernel = f"10.0.{build[0]}.{build[1]}" if build else "6.1.0"
    return NodeFacts(
        name=name,
        os=os_name,  # type: ignore[arg-type]
        address="10.0.0.1",
        ready=True,
        schedulable=True,
        control_plane=False,
        kernel_version=kernel,
        os_image="image",
        container_runtime="containerd://2.1.0",
        windows_build=build,
        dsr=Fact(dsr if os_name == "windows" else None, "stand-in"),
        **more,
    )


def facts(**changes: object) -> Facts:
    def fact(value: object) -> Fact[object]:
        return Fact(value, "stand-in")

    dsr: Any = changes.get("dsr", True)
    count = int(str(changes.get("windows", 2)))
    windows = [node(f"win-{number}", "windows", (20348, 2762), dsr) for number in range(count)]
    values: dict[str, object] = {
        "kubernetes_version": "v1.34.1", "calico_version": "v3.31.2", "mode": "vxlan", "datastore": "kubernetes",
        "install": "operator", "platform": "kubernetes", "cni": "Calico", "ipam": "calico-ipam",
        "kube_proxy_mode": "iptables", "single_network": True,
        "calico_apis": ("projectcalico.org/v3", "crd.projectcalico.org/v1"),
    }  # fmt: skip
    values |= {key: value for key, value in changes.items() if key in values}
    return Facts(
        nodes=(node("linux-1", "linux"), node("linux-2", "linux"), *windows),
        evidence="lab",
        **{
            key: fact(tuple(value) if isinstance(value, list) else value)
            for key, value in values.items()
        },  # type: ignore[arg-type]
    )


class StandInLock:
    """A run lock that records its calls."""

    def __init__(self, cluster: StandIn) -> None:
        self.cluster = cluster
        self.lost = str(cluster.told.get("lost", ""))

    def acquire(self) -> None:
        self.cluster.note("lock")
        if "held" in self.cluster.told:
            raise ClusterUnusable([str(self.cluster.told["held"])])

    def check(self) -> None:
        self.cluster.note("check")

    def release(self) -> None:
        self.cluster.note("unlock")


class StandIn:
    """A provider that behaves as the environment variable STAND_IN (JSON) defines."""

    def __init__(self, told: dict[str, object], log: Path) -> None:
        self.told = told
        self.log = log

    def note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{what}\n")

    def takes(self, what: str) -> None:
        """Sleep for the time that STAND_IN gives for a step."""
        time.sleep(float(str(self.told.get(f"{what} takes", 0))))

    def begin(self, choice: object, settings: object, run: RunDirectory) -> None:
        self.note("begin")
        if "gone" in self.told:
            (run.shared / "gone").write_text(str(self.told["gone"]))

    def open(self, choice: object, settings: object, run: object) -> Connection:
        self.note("open")
        self.takes("opening")
        if "usage" in self.told:
            raise UsageProblem(str(self.told["usage"]))
        if "unusable" in self.told:
            raise ClusterUnusable(list(self.told["unusable"]))  # type: ignore[call-overload]
        return Connection(
            how="lab", label="stand-in", unverified=str(self.told.get("unverified", ""))
        )

    def inspect(self, connection: Connection, settings: object) -> Inspection:
        self.note("inspect")
        self.takes("inspecting")
        if "broken" in self.told:
            raise EnvironmentBroken(str(self.told["broken"]))
        free = self.told.get("free")
        return Inspection(
            facts=facts(**self.told),
            installed=Installed(cluster_uid=str(self.told.get("uid", ""))),
            reasons=tuple(self.told.get("reasons", ())),  # type: ignore[arg-type]
            no_lock=str(self.told.get("no_lock", "")),
            third_party_pods={
                node: tuple(pods)
                for node, pods in self.told.get("third_party_pods", {}).items()  # type: ignore[attr-defined]
            },
            not_opted_in=str(self.told.get("not_opted_in", "")),
            token_ends=float(str(self.told["token_ends"])) if "token_ends" in self.told else None,
            policies=Beforehand(**self.told.get("policies", {})),  # type: ignore[arg-type]
            room={"win-0": Room(addresses=int(str(free)), memory=None)} if free is not None else {},
        )

    def connect(self, connection: Connection, settings: object, run: object) -> str:
        self.note("connect")
        return "door"

    def enter(self, test: str) -> None:
        self.note(f"enter {test}")

    def lock(self, connection: object, settings: object, **_: object) -> StandInLock:
        return StandInLock(self)

    def unrestored(self, connection: object, settings: object, facts: object) -> list[str]:
        return [str(line) for line in self.told.get("unrestored", ())]  # type: ignore[attr-defined]

    def clean_up(self, connection: object, settings: object) -> list[str]:
        self.note("clean_up")
        self.takes("cleaning up")
        return [str(line) for line in self.told.get("left", ())]  # type: ignore[attr-defined]

    def put_back(self, connection: object, settings: object, facts: object, worker: str) -> PutBack:
        self.note(f"put back {worker}".strip())
        self.takes("putting back")
        if "put back fails" in self.told:
            raise EnvironmentBroken(str(self.told["put back fails"]))
        self.note("put back is done")
        problem = str(self.told.get("not put back", ""))
        return PutBack(lines=(problem,) if problem else (), problem=problem)

    def last_look(
        self, connection: object, settings: object, nodes: object, seconds: float
    ) -> list[str]:
        return [str(line) for line in self.told.get("last look", ())]  # type: ignore[attr-defined]

    def answers_again(self, connection: object, settings: object, *, within: float) -> bool:
        self.note(f"away {within:.0f}")
        return False

    def interrupt(self, seconds: float) -> None:
        self.note(f"interrupt {seconds:g}")

    def close(self) -> None:
        self.note("close")


def pytest_conformance_provider(config: pytest.Config) -> StandIn:
    told = json.loads(os.environ.get("STAND_IN", "{}"))
    return StandIn(told, config.rootpath / "cluster.log")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Record a decision for each test, since tests of stand-in suites have no expectations; with
    the mark ``undecided``, record none."""
    if PLANNED in pyfuncitem.stash and not pyfuncitem.get_closest_marker("undecided"):
        halves: tuple[Half, ...] = ("behaviour", "closed", "open")
        about = ("20348",)
        recorder(pyfuncitem).decided(
            Decision(
                source="linux-1", target="win-0", builds=about, about=about, verdict=ClaimVerdict.CONFIRMED,
                reason="decided by the stand-in", halves=halves,
            )
        )  # fmt: skip
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "undecided: nothing is decided in place of the test's expectations"
    )
