# SPDX-License-Identifier: Apache-2.0
"""Asks the real judge on a real lab while its probes break, and counts its answers; then does the
same with the naive method.

``python -m tests.detection.wrong_verdicts`` makes 1,024 attempts with each method and writes
docs/wrong-verdicts.md. ``--only "exec hangs"`` (repeatable) tries only some breaks and writes
nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue

from benchmarks import machine
from benchmarks.lab_process import lab
from benchmarks.naive import Naive
from conformance.errors import Nonconformance, SuiteError
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Pair, Workload
from conformance.model.observation import Verdict
from conformance.probe.prober import Prober
from conformance.settings import load_timings
from conformance.timing import until
from tests.detection.breaks import BREAKS, Break
from tests.detection.cases import Answer, Case, Result, cases
from tests.detection.node_pairs import LIMITS, NodePair, node_pairs, patient
from tests.unit.conformance.expect.denial import blocked

PAGE = Path(__file__).parents[2] / "docs" / "wrong-verdicts.md"
TIMINGS = Path(__file__).with_name("wrong_verdicts.yaml")
PAIRS = 4
PROFILE = "ten-nodes"
LATE = 5.0
"""s. The delay of policy in the break policy-late."""
MID = 0.15
"""s. The time from the question to an event during the question."""
PASSES_AFTER = 0.8
"""s. The time after which a passing fault that cannot be counted is healed."""


class WallClock:
    """The ``time.time`` of this process, which tests can make jump."""

    def __init__(self) -> None:
        self._true = time.time
        self.ahead = 0.0

    def __call__(self) -> float:
        return self._true() + self.ahead

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        time.time = self
        try:
            yield
        finally:
            time.time = self._true


CLOCK = WallClock()


# --- one case ---------------------------------------------------------------------------------------------------------


@dataclass
class Question:
    """Asks one case: by the judge, or by the naive method."""

    pair: NodePair
    case: Case
    patience: Path
    judged: bool = True

    @property
    def server(self) -> str:
        part = (
            "late"
            if self.case.broken.fault == "policy-late"
            else {"open": "open", "denied": "shut"}[self.case.path]
        )
        return f"{part}-{self.case.target}"

    def judge(self) -> Result:
        """Return the judge's result."""
        pair, case = self.pair, self.case
        cold = (
            Prober(pair.kube, pair.folder, pair.settings, limits=LIMITS)
            if case.agent == "cold"
            else None
        )
        prober = cold or pair.prober
        timings = pair.settings.timings
        # the budget is longer than the delay
        if case.broken.fault == "policy-late" and case.span == "passing":
            timings = load_timings(self.patience, lab=True)
        expect = replace(pair.expect, prober=prober, timings=timings)
        source = pair.subject(case.source)
        if not cold:
            prober.observe(
                [
                    Attempt(
                        source=source,
                        kind=Kind.TCP,
                        give_up_after=2.0,
                        target=pair.friend.tcp(8080),
                    )
                ]
            )
        try:
            return self._answered(lambda: self._expect(expect))
        finally:
            if cold:
                cold.close()

    def _expect(self, expect: Expect) -> None:
        pair, case = self.pair, self.case
        source = pair.subject(case.source)
        target = pair.by_name(self.server) if case.broken.by_name else pair.server(self.server)
        if case.expected == "allow":
            expect.reachable(source, target, because="the table expects it")
        else:
            beside: list[Pair | Workload] = [pair.friend, (source, pair.bystander)]
            blocked(expect, source, target, because="the table expects it", beside=beside)

    def naive(self) -> Result:
        """Return the naive method's result."""
        pair, case = self.pair, self.case
        naive = Naive(pair.kube, give_up=1, patience=4.0)
        target = pair.by_name(self.server) if case.broken.by_name else pair.server(self.server)
        allowed = case.expected == "allow"

        def ask() -> None:
            if not naive.confirms(pair.subject(case.source), target, allowed=allowed):
                wanted, seen = ("CONNECTED", "TIMED_OUT") if allowed else ("TIMED_OUT", "CONNECTED")
                raise Nonconformance(f"expected {wanted}, observed {seen}")

        return self._answered(ask)

    def _answered(self, ask: Callable[[], None]) -> Result:
        line, answer = "", "CONFIRMED"
        with self._wrong():
            begun = time.monotonic()
            try:
                ask()
            except Nonconformance as failure:
                answer, line = "VIOLATED", _line(failure)
            except SuiteError as error:
                answer, line = "INCONCLUSIVE", _line(error)
            except Exception as error:
                answer, line = "ERROR", _line(error)
            seconds = time.monotonic() - begun
        if self.case.broken.fault == "policy-late":
            answer, line = self._in_time(answer, line, seconds)
        return Result(case=self.case, answer=answer, line=line, seconds=seconds)  # type: ignore[arg-type]

    def _in_time(self, answer: str, line: str, seconds: float) -> tuple[str, str]:
        """Return an error if a late change was confirmed before it could have taken effect;
        otherwise return the answer unchanged."""
        if answer == "CONFIRMED" and self.case.true and seconds < LATE - 0.5:
            return (
                "ERROR",
                f"confirmed {seconds:.1f} s after a change that takes effect {LATE:.0f} s late",
            )
        return answer, line

    # --- what is wrong ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _wrong(self) -> Iterator[None]:
        """Apply the break from before the question until after the answer."""
        how = {"policy-late": self._late, "pod-restarts": self._restart, "": self._jump}
        with how.get(self.case.broken.fault, self._fault)():
            yield

    @contextlib.contextmanager
    def _fault(self) -> Iterator[None]:
        pair, case, broken = self.pair, self.case, self.case.broken
        source, server = pair.subject(case.source), pair.workloads[self.server]
        where: dict[str, dict[str, str]] = {
            "source": {"namespace": pair.namespace, "pod": source.pod},
            "namespace": {"namespace": pair.namespace},
            "target node": {"node": server.node},
            "source node": {"node": source.node},
            "name": {"name": pair.by_name(self.server).host.rstrip(".")},
        }
        passing = case.span == "passing"
        count = {"first": "1"} if passing and broken.once else {}
        heal = PASSES_AFTER if passing and not broken.once else 0.0
        with pair.fault(broken.fault, {**broken.parameters, **where[broken.scope], **count}, heal):
            yield

    @contextlib.contextmanager
    def _late(self) -> Iterator[None]:
        """Delay policy on the server's node. The change that the case expects is made now if the
        case is true, otherwise never."""
        pair, case, name = self.pair, self.case, self.server
        node = pair.workloads[name].node
        if case.expected == "allow":
            pair.close(name)
            _settle(pair, case, name, closed=True)
        with pair.fault("policy-late", {"node": node, **case.broken.parameters}):
            if case.true:
                (pair.open if case.expected == "allow" else pair.close)(name)
            yield
        with contextlib.suppress(SuiteError):
            pair.open(name)
        _settle(pair, case, name, closed=False)

    @contextlib.contextmanager
    def _restart(self) -> Iterator[None]:
        """Kill the source's or the server's container during the question."""
        pair = self.pair
        name = f"subject-{self.case.source}" if self.case.span == "lasting" else self.server
        pod = pair.workloads[name]
        parameters = {"pod": f"{pod.namespace}/{pod.pod}"}
        kill = threading.Timer(
            MID, lambda: pair.ask(op="inject", fault="pod-restarts", parameters=parameters)
        )
        kill.start()
        yield
        kill.join()
        for active in pair.ask(op="active"):
            if active["parameters"].get("pod") == parameters["pod"]:
                pair.ask(op="heal", id=active["id"])
        if not self.judged:  # the naive method needs no path that was observed open before
            pair.replace(name)
            return
        end = time.monotonic() + 90
        while pair.workloads[name].restarts == pod.restarts and time.monotonic() < end:
            time.sleep(0.05)
            pair.read_again(name)
        pair.prober.revalidate()

    @contextlib.contextmanager
    def _jump(self) -> Iterator[None]:
        ahead = 3600.0 if self.case.span == "lasting" else -3600.0

        def jump() -> None:
            CLOCK.ahead += ahead

        timer = threading.Timer(MID, jump)
        timer.start()
        yield
        timer.join()
        CLOCK.ahead -= ahead


def _settle(pair: NodePair, case: Case, name: str, *, closed: bool) -> None:
    """Wait until the path has had, for a while, the state that it needs before or after the case,
    since delayed changes may still take effect."""
    ask = Attempt(
        source=pair.subject(case.source), kind=Kind.TCP, give_up_after=0.3, target=pair.server(name)
    )
    settled = until(
        lambda: pair.prober.observe([ask])[0].verdict is not Verdict.CONNECTED, lambda shut: shut is closed,
        within=15.0, agree=8, every=0.1, description=f"{name} is {'closed' if closed else 'open'}",
    )  # fmt: skip
    if not settled.converged:
        raise RuntimeError(f"not so: {settled.description}")


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


# --- all cases --------------------------------------------------------------------------------------------------------


def run(
    who: str,
    chosen: Sequence[Case],
    where: Sequence[NodePair],
    ask: Callable[[NodePair, Case], Result],
) -> list[Result]:
    """Run each case on the next free pair, one break after the other."""
    free: Queue[NodePair] = Queue()
    for pair in where:
        free.put(pair)

    def one(case: Case) -> Result:
        pair = free.get()
        try:
            return ask(pair, case)
        # an error of this pair must not lose the other cases
        except Exception as error:
            return Result(case=case, answer="ERROR", line=_line(error), seconds=0.0)
        finally:
            free.put(pair)

    found: list[Result] = []
    with ThreadPoolExecutor(len(where)) as pool:
        for broken in dict.fromkeys(case.broken.name for case in chosen):
            begun = time.monotonic()
            results = list(pool.map(one, [case for case in chosen if case.broken.name == broken]))
            found += results
            wrong, misnamed = sum(r.wrong for r in results), sum(r.misnamed for r in results)
            seconds = time.monotonic() - begun
            print(
                f"{who} {broken:26} {len(results):4} {wrong:3} wrong {misnamed:3} misnamed {seconds:6.1f} s",
                flush=True,
            )
            for result in results:
                if who == "judge" and (result.wrong or result.misnamed):
                    print(f"   {result.case.label}: {result.answer} {result.line}")
    return found


def measure(
    chosen: Sequence[Case], folder: Path, labs: int = 1
) -> tuple[list[Result], list[Result]]:
    """Return the judge's results and the naive method's results; the breaks are divided among this
    number of labs, which run at the same time."""
    names = list(dict.fromkeys(case.broken.name for case in chosen))
    shares = [
        [case for case in chosen if names.index(case.broken.name) % labs == number]
        for number in range(labs)
    ]
    with CLOCK.installed(), ThreadPoolExecutor(labs) as pool:
        parts = list(
            pool.map(_measure, shares, [folder / f"lab-{number}" for number in range(labs)])
        )
    order = {name: number for number, name in enumerate(names)}
    ours, naive = (
        sorted(
            (result for part in parts for result in part[which]),
            key=lambda result: order[result.case.broken.name],
        )
        for which in (0, 1)
    )
    return ours, naive


def _measure(chosen: Sequence[Case], folder: Path) -> tuple[list[Result], list[Result]]:
    """Measure on a lab that is started for this purpose."""
    if not chosen:
        return [], []
    folder.mkdir()
    generous = patient(TIMINGS, folder, policy_effect="12 s")
    with lab(PROFILE) as cluster:
        ready = node_pairs(cluster.kubeconfig, folder, TIMINGS, PAIRS)
        try:
            ours = run(
                "judge", chosen, ready, lambda pair, case: Question(pair, case, generous).judge()
            )
            naive = run(
                "naive",
                chosen,
                ready,
                lambda pair, case: Question(pair, case, generous, judged=False).naive(),
            )
        finally:
            for pair in ready:
                pair.end()
    return ours, naive


# --- the page ---------------------------------------------------------------------------------------------------------

HEAD = """\
# Wrong verdicts
For users who ask whether a broken probe can pass for a verdict.
Generated by `python -m tests.detection.wrong_verdicts` on {date}.
Machine: {machine}; load while it ran: {load}.

The real judge (agents, `Prober`, `Expect`, real pods) decides paths on the embedded lab while the probe, or something
that the probe needs, is broken: {ours} attempts in all. Each break is tried with every combination of:

- expected result: allow or deny; real state of the path: open or denied;
- operating system of client and server: Linux or Windows;
- the agent: already running (warm) or not (cold);
- the break: lasting or passing.

[`tests/detection/breaks.py`](../tests/detection/breaks.py) makes the breaks. The columns count:

- **wrong**: false verdicts. CONFIRMED is false if the path is not as expected, if policy refuses
  or DNS is broken for the whole attempt, or if it comes before a late policy is in force. VIOLATED
  is right if the cluster is broken for the whole attempt and the first line says so. Otherwise it is
  false if the path is as expected, or if the first line does not show what the path really is. An
  exception that is none of the suite's own counts as wrong, too.
- **misnamed**: INCONCLUSIVE verdicts with a first line that does not name the break.
- **violated**: correct VIOLATED verdicts. The path is not as expected, or the cluster itself is broken (policy that
  refuses, policy above its budget, DNS) and the first line says so.

The naive method ([`benchmarks/naive.py`](../benchmarks/naive.py)) runs one exec of `nc -vz` or `Invoke-WebRequest`
per probe and takes its exit status as the answer. An unexpected answer is probed once more, as Kubernetes' netpol
suite does. This method has no verdict INCONCLUSIVE.

**{wrong} wrong verdicts of {ours} and {misnamed} breaks misnamed; the naive method: {naive_wrong} wrong of {naive}.**

| break | expected | attempts | confirmed | violated | inconclusive | misnamed | wrong | naive: wrong |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
## How each break is named
The most frequent first line of an INCONCLUSIVE verdict, for each break. If no verdict was INCONCLUSIVE, the most
frequent first line of a VIOLATED verdict.

| break | what is done | first line |
| --- | --- | --- |
"""
CLOCKS = """
Clocks: judge and agents use monotonic clocks for all verdicts and deadlines. Wall-clock time only dates records. All
pods share the kernel's wall clock, so the clock jump is made in the judge's process.
`tests/contract/test_program_files.py` checks that the agents' source reads no wall clock.
"""


def page(ours: Sequence[Result], naive: Sequence[Result], load: str) -> str:
    """Return the text of the document."""
    text = HEAD.format(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"), machine=machine.describe(), load=load,
        ours=len(ours), wrong=sum(r.wrong for r in ours), misnamed=sum(r.misnamed for r in ours), naive=len(naive),
        naive_wrong=sum(r.wrong for r in naive),
    )  # fmt: skip
    tried = [broken for broken in BREAKS if any(result.case.broken is broken for result in ours)]
    for broken in tried:
        for expected in ("allow", "deny"):
            mine = [r for r in ours if r.case.broken is broken and r.case.expected == expected]
            theirs = [r for r in naive if r.case.broken is broken and r.case.expected == expected]
            answers: Counter[Answer] = Counter(r.answer for r in mine)
            text += (
                f"| {broken.name} | {expected} | {len(mine)} | {answers['CONFIRMED']} | {answers['VIOLATED']} "
                f"| {answers['INCONCLUSIVE']} | {sum(r.misnamed for r in mine)} | {sum(r.wrong for r in mine)} "
                f"| {sum(r.wrong for r in theirs)} of {len(theirs)} |\n"
            )
    text += TAIL
    for broken in tried:
        text += f"| {broken.name} | {broken.what} | {_example(broken, ours)} |\n"
    return text + CLOCKS


def _example(broken: Break, results: Sequence[Result]) -> str:
    said = [r for r in results if r.case.broken is broken and r.answer == "INCONCLUSIVE"]
    said = said or [
        r for r in results if r.case.broken is broken and r.answer == "VIOLATED" and r.case.true
    ]
    if not said:
        return "none: it changes no verdict"
    counts = Counter(_plain(r.line) for r in said)
    line = counts.most_common(1)[0][0]
    return f"`{line.replace('|', '¦').replace('`', chr(39))[:260]}`"


def _plain(line: str) -> str:
    """Return a text without the parts that differ between cases."""
    line = re.sub(r"calico-demo-table-pair\d/(\w+-\w+)-[0-9a-z]+-[0-9a-z]+", r"ns/\1", line)
    line = re.sub(r"calico-demo-table-pair\d", "ns", line)
    line = re.sub(r"(linux|windows)-\d\b", r"\1-1", line)
    return re.sub(r"192\.168\.\d+\.\d+", "192.168.0.9", line)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--only", action="append", default=[], choices=[item.name for item in BREAKS]
    )
    arguments.add_argument(
        "--labs", type=int, default=4, help="labs at once (default 4): most of the time is waiting"
    )
    given = arguments.parse_args()
    chosen = [case for case in cases() if not given.only or case.broken.name in given.only]
    before = Path("/proc/loadavg").read_text().split()[0]
    with tempfile.TemporaryDirectory(prefix="wrong-verdicts-") as folder:
        ours, naive = measure(chosen, Path(folder), given.labs)
    load = f"{before} before, {Path('/proc/loadavg').read_text().split()[0]} after"
    print(f"wrong {sum(r.wrong for r in ours)}, misnamed {sum(r.misnamed for r in ours)} of {len(ours)}; "
          f"naive: wrong {sum(r.wrong for r in naive)} of {len(naive)}")  # fmt: skip
    if not given.only:
        PAGE.write_text(page(ours, naive, load), encoding="utf-8")


if __name__ == "__main__":
    main()
