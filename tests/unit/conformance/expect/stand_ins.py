"""A prober that answers from a script, a clock that needs no time, and workloads to talk about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from conformance.errors import EnvironmentBroken
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Seen
from conformance.model.endpoint import OS, Path, Target, Workload
from conformance.model.observation import Observation, Verdict


def workload(name: str, os: OS = "linux") -> Workload:
    return Workload(
        namespace="ns", pod=name, container="main", uid=f"uid-{name}", role="client", os=os,
        node=f"{os}-1", address="192.168.0.5", node_address="10.0.0.11",
    )  # fmt: skip


def target(host: str = "192.168.0.9") -> Target:
    return Target(host=host, port=80, protocol="tcp", path=Path.POD_IP)


BYSTANDER = target("192.168.0.200")
"""A server that no policy selects: whoever asks it is answered, whatever the script says."""


@dataclass
class Clock:
    """Time that passes only when somebody sleeps."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


Answer = Verdict | Exception | Callable[[Attempt, int], Observation]


@dataclass
class ScriptedProber:
    """Answers each attempt by its source's name: the answers of successive rounds; the last one lasts."""

    answers: dict[str, list[Answer]]
    rounds: int = 0
    batches: list[list[str]] = field(default_factory=list)
    restarted: set[str] = field(default_factory=set)
    """Pods that are no longer what they were."""

    def observe(self, batch: Sequence[Attempt]) -> list[Observation]:
        self.batches.append([attempt.source.pod for attempt in batch])
        found = [self._answer(attempt) for attempt in batch]
        self.rounds += 1
        return found

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        for one in workloads:
            if one.pod in self.restarted:
                raise EnvironmentBroken(f"pod {one.label} restarted 1 time")

    def _answer(self, attempt: Attempt) -> Observation:
        if attempt.target == BYSTANDER:
            return observation(attempt, Verdict.CONNECTED)
        script = self.answers[attempt.source.pod]
        answer = script[min(self.rounds, len(script) - 1)]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Verdict):
            return observation(attempt, answer)
        return answer(attempt, self.rounds)


def observation(attempt: Attempt, verdict: Verdict, **more: str) -> Observation:
    return Observation(attempt=attempt, verdict=verdict, at=0.0, seconds=0.012, **more)  # type: ignore[arg-type]


def told(kept: Iterable[Seen]) -> list[str]:
    """Reasons of what was decided beyond right and wrong: LIFTED and NOT_OBSERVED."""
    return [one.reason for one in kept if one.verdict in (ClaimVerdict.LIFTED, ClaimVerdict.NOT_OBSERVED)]
