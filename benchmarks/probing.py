# SPDX-License-Identifier: Apache-2.0
"""The speed of probing: the suite's agents compared with one exec per probe. ``python -m
benchmarks.probing``.

Both methods run on the same lab. Every figure is stored in results/probing.json with its run as
soon as it is measured, and docs/performance.md is written from this file. ``--only 9x9 --cost 2000
--policy denied`` measures a part, ``--missing`` everything that has no figure yet. Methods are
compared only within one run. If the naive method would take long for all pairs, it is measured on a
sample and extrapolated.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.lab_process import lab
from benchmarks.naive import Naive
from benchmarks.topology import Topology, topology
from conformance.expect.case import Paths
from conformance.expect.traffic import Expect
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Target, Workload
from conformance.model.observation import Verdict
from conformance.probe.prober import Limits, Prober

RESULTS = Path(__file__).parent / "results" / "probing.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- probing: begin (python -m benchmarks.probing) -->", "<!-- probing: end -->"
SIZES = (9, 30, 200)
COSTS = (0, 30, 2000)
"""ms. The costs of one exec: the lab's timing.exec_cost_ms."""
POLICIES = ("open", "half", "denied")
GIVE_UPS = (1, 5)
"""s. The time-outs after which an attempt counts as denied; the documents' commands accept only
whole seconds."""
SAMPLE_SECONDS = 6.0
"""s. The time that the naive method gets, roughly, for one figure."""
LIMITS = Limits(agents=200, share=200, sources=200)
"""Limits above the suite's own. Each of 200 pods keeps its agent while others are used, and all are
asked at once. The suite itself allows less, since it shares its cluster with others."""
UNTOLD = "until "
"""The prefix of the name of a run that stands for all figures stored until then, whether one run
measured them or several."""


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    size: int
    cost: int
    policy: str
    give_up: int
    method: str
    """``warm``, ``cold``, ``decision``, ``naive-1``, ``naive-3``."""
    run: str
    """The beginning of the run; see ``UNTOLD``."""
    seconds: float
    execs: int | None
    """The number of execs; None: this method does not count them."""
    pairs: int
    """The number of pairs that were really probed. If that is not all pairs, ``seconds`` and
    ``execs`` are extrapolated."""
    rounds: int
    wrong: int | None
    """The number of pairs whose result is not the one that policy causes; None: this method does
    not count them."""
    load: float
    """The load of the machine before the measurement."""
    date: str

    @property
    def key(self) -> tuple[int, int, str, int, str]:
        return (self.size, self.cost, self.policy, self.give_up, self.method)


class Book:
    """All figures, stored on disk."""

    def __init__(self) -> None:
        plain = (
            json.loads(RESULTS.read_text(encoding="utf-8"))
            if RESULTS.exists()
            else {"runs": {}, "figures": []}
        )
        self.figures = {
            figure.key: figure for figure in (Figure(**entry) for entry in plain["figures"])
        }
        self.machines: dict[str, str] = plain["runs"]
        """Map each run to the machine on which it ran."""

    def put(self, figure: Figure) -> None:
        self.figures[figure.key] = figure
        self.machines[figure.run] = machine.describe()
        kept = {
            run: self.machines[run] for run in sorted({item.run for item in self.figures.values()})
        }
        RESULTS.parent.mkdir(exist_ok=True)
        entries = [
            asdict(item) for item in sorted(self.figures.values(), key=lambda figure: figure.key)
        ]
        RESULTS.write_text(json.dumps({"runs": kept, "figures": entries}, indent=0) + "\n")
        print(
            f"{figure.size}x{figure.size} {figure.policy:6} {figure.give_up} s, exec {figure.cost} ms: "
            f"{figure.method:8} {figure.seconds:8.2f} s {_counted(figure.execs):>6} execs, {figure.pairs} pairs, "
            f"{_counted(figure.wrong)} wrong, load {figure.load}",
            flush=True,
        )


def _counted(number: int | None) -> str:
    return "-" if number is None else str(number)


def load() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


Shape = tuple[int, int, str, int]
"""The number of pods, the cost of an exec, the policy, and the time-out of a denial."""


@dataclass
class Harness:
    """A lab with its pods, measured one cell of the table at a time."""

    where: Topology
    book: Book
    cost: int
    run: str

    def cell(self, size: int, policy: str, give_up: int, methods: Sequence[str]) -> None:
        """Measure one cell with these methods."""
        pods = self.where.pods[:size]
        pairs = [(source, target.tcp(8080)) for source in pods for target in pods]
        right = [self.where.allowed(policy, source, target) for source in pods for target in pods]
        attempts = [
            Attempt(source=s, kind=Kind.TCP, give_up_after=give_up, target=t) for s, t in pairs
        ]
        shape = (size, self.cost, policy, give_up)
        if "warm" in methods or "decision" in methods:
            prober = self.prober()
            prober.observe([attempt for attempt in attempts if attempt.target == pods[0].tcp(8080)])
            if "warm" in methods:
                self.ours(
                    shape,
                    "warm",
                    prober,
                    attempts,
                    right,
                    rounds=3 if size <= 30 and give_up == 1 else 1,
                )
            if "decision" in methods and policy == "half":
                self.decision(shape, prober, pods)
            prober.close()
        if "cold" in methods:
            prober = self.prober()
            self.ours(shape, "cold", prober, attempts, right, rounds=1)
            prober.close()
        for workers in (1, 3):
            if f"naive-{workers}" in methods:
                self.naive(shape, workers, pairs, right)

    def prober(self) -> Prober:
        return Prober(self.where.kube, self.where.folder, self.where.settings, limits=LIMITS)

    def ours(
        self, shape: Shape, method: str, prober: Prober, attempts: Sequence[Attempt],
        right: Sequence[bool], *, rounds: int,
    ) -> None:  # fmt: skip
        """Measure rounds of attempts: in a round, every pair is probed once."""
        before, busy, took, wrong = sum(prober.counts.starts.values()), load(), [], 0
        for _ in range(rounds):
            begun = time.perf_counter()
            seen = prober.observe(attempts)
            took.append(time.perf_counter() - begun)
            wrong += sum(
                (observation.verdict is Verdict.CONNECTED) is not want
                for observation, want in zip(seen, right, strict=True)
            )
        execs = sum(prober.counts.starts.values()) - before
        self.note(
            shape,
            method,
            statistics.median(took),
            execs=execs,
            pairs=len(attempts),
            rounds=rounds,
            wrong=wrong,
            load=busy,
        )

    def decision(self, shape: Shape, prober: Prober, pods: Sequence[Workload]) -> None:
        """Measure a whole decision, as a test makes it: open and closed paths with their controls,
        until three rounds agree and the result has held."""
        give_up = shape[3]
        expect = Expect(prober, self.where.patient(give_up))
        pairs = [(source, target) for source in pods for target in pods]
        open_ = [
            (source, to.tcp(8080)) for source, to in pairs if self.where.allowed("half", source, to)
        ]
        shut = [
            (source, to.tcp(8080))
            for source, to in pairs
            if not self.where.allowed("half", source, to)
        ]
        self.where.enforce("open")
        self.where.settle(prober, pods, "open")
        expect.controls(Paths([*open_, *shut], open=True, because="no policy is in force"))
        self.where.enforce("half")
        busy, begun = load(), time.perf_counter()
        because = "half of the pods let nobody in"
        expect.matrix(
            Paths(open_, open=True, because=because), Paths(shut, open=False, because=because)
        )
        seconds = time.perf_counter() - begun
        self.note(
            shape,
            "decision",
            seconds,
            execs=None,
            pairs=len(pairs),
            rounds=1,
            wrong=None,
            load=busy,
        )

    def naive(
        self, shape: Shape, workers: int, pairs: Sequence[tuple[Workload, Target]],
        right: Sequence[bool],
    ) -> None:  # fmt: skip
        """Probe all pairs once, or a sample that is spread over all pairs."""
        size, cost, policy, give_up = shape
        share = {"open": 0.0, "half": 0.5, "denied": 1.0}[policy]
        expected = (cost / 1000 + 0.03 + share * give_up) / workers
        count = min(len(pairs), max(2 * workers, int(SAMPLE_SECONDS / expected)))
        chosen = list(range(len(pairs)))
        if count < len(pairs):  # the sample has the same share of denied pairs as all pairs
            draw = random.Random(size)
            closed = [index for index in chosen if not right[index]]
            opened = [index for index in chosen if right[index]]
            of_closed = round(count * len(closed) / len(pairs))
            chosen = draw.sample(closed, of_closed) + draw.sample(opened, count - of_closed)
            draw.shuffle(chosen)
        naive = Naive(self.where.kube, give_up=give_up, patience=60.0)
        busy, begun = load(), time.perf_counter()
        seen = naive.matrix([pairs[index] for index in chosen], workers)
        seconds = time.perf_counter() - begun
        wrong = sum(found is not right[index] for found, index in zip(seen, chosen, strict=True))
        scale = len(pairs) / len(chosen)
        execs = round(naive.execs * scale)
        self.note(
            shape,
            f"naive-{workers}",
            seconds * scale,
            execs=execs,
            pairs=len(chosen),
            rounds=1,
            wrong=wrong,
            load=busy,
        )

    def note(self, shape: Shape, method: str, seconds: float, **more: Any) -> None:
        """Store a figure; ``more``: its other fields."""
        size, cost, policy, give_up = shape
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        seconds = round(seconds, 3)
        self.book.put(
            Figure(
                size=size, cost=cost, policy=policy, give_up=give_up, method=method, run=self.run, seconds=seconds,
                date=date, **more,
            )
        )  # fmt: skip


# --- the page ---------------------------------------------------------------------------------------------------------


def section(book: Book) -> str:
    """Return the generated section of docs/performance.md."""
    found = book.figures
    runs = {
        run: chr(ord("A") + number)
        for number, run in enumerate(sorted({figure.run for figure in found.values()}))
    }
    lines = [
        BEGIN,
        "## Probing: the suite's agents against one exec per probe",
        "Measured with `python -m benchmarks.probing` on labs of profile ten-nodes. Within a",
        f"run both methods use the same lab. Here {LIMITS.agents} agents may live and {LIMITS.sources} clients probe at",
        f"once; in a run of the suite the limits are {Limits().agents} and {Limits().sources}, and further pods take turns. In",
        "one attempt round every pod connects once to every pod.",
        "",
        "- **warm**: the agents already run; a number in parentheses is the number that had to",
        "  be started.",
        "- **cold**: the agents' starts are included.",
        "- **decision**: a test's time until every closed path is decided and held. Attempts at",
        "  open and closed paths overlap, with their controls.",
        "- **naive-1**, **naive-3**: `nc -vz` or `Invoke-WebRequest`, an exec for each pair,",
        "  with 1 and with 3 workers (as Kubernetes' netpol suite). A value with ~ is",
        "  extrapolated from a sample; its size is in parentheses.",
        "- **execs**: the suite's (cold) / the naive method's. **load**: the machine's before",
        "  the row's first figure.",
        "- **run**: the runs of the row's figures, in order. naive-3 / warm is given if both",
        "  are of the same run.",
        "",
        *(
            f"- {letter}: {_description(run)}. Machine: {book.machines[run]}."
            for run, letter in runs.items()
        ),
        "",
        "| pods | policy | deny time-out | exec costs | warm | cold | decision | naive-1 | naive-3 | naive-3 / warm "
        "| execs | load | run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size, cost, policy, give_up in sorted({key[:4] for key in found}, key=_order):
        row = {method: found.get((size, cost, policy, give_up, method)) for method in METHODS}
        warm, three, cold = row["warm"], row["naive-3"], row["cold"]
        ratio = (
            f"{three.seconds / warm.seconds:.0f}"
            if warm and three and warm.run == three.run
            else "-"
        )
        execs = f"{cold.execs if cold else '-'} / {three.execs if three else '-'}"
        of = dict.fromkeys(runs[figure.run] for figure in row.values() if figure)
        first = next(figure for figure in row.values() if figure)
        cells = [
            f"{size}x{size}",
            POLICY_WORDS[policy],
            f"{give_up} s",
            f"{cost} ms",
            *(_shown(figure) for figure in row.values()),
        ]
        lines.append(
            f"| {' | '.join(cells)} | {ratio} | {execs} | {first.load:g} | {', '.join(of)} |"
        )
    counted = [
        (figure.wrong, figure.pairs * figure.rounds)
        for figure in found.values()
        if figure.wrong is not None
    ]
    lines += [
        "",
        f"Pairs with a result that contradicts the policy: {sum(wrong for wrong, _ in counted)} of "
        f"{sum(probed for _, probed in counted):,} probed (decisions not counted).",
        END,
    ]
    return "\n".join(lines)


def _description(run: str) -> str:
    if run.startswith(UNTOLD):
        return (
            f"kept {run} by one run or several that cannot be separated: a ratio may be of two runs"
        )
    return f"one run, begun {run}"


METHODS = ("warm", "cold", "decision", "naive-1", "naive-3")
POLICY_WORDS = {"open": "all open", "half": "half denied", "denied": "all denied"}


def _order(key: tuple[int, int, str, int]) -> tuple[int, int, int, int]:
    size, cost, policy, give_up = key
    return (size, POLICIES.index(policy), give_up, cost)


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    sampled = figure.method.startswith("naive") and figure.pairs < figure.size**2
    text = f"{figure.seconds:.2f} s" if figure.seconds < 100 else f"{figure.seconds:,.0f} s"
    if figure.method == "warm" and figure.execs:
        return f"{text} ({figure.execs} started)"
    return f"~{text} ({figure.pairs})" if sampled else text


def write(book: Book) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if BEGIN in text:
        head, _, rest = text.partition(BEGIN)
        tail = rest.partition(END)[2]
    else:
        head, tail = text.rstrip() + "\n\n", "\n"
    PAGE.write_text(head + section(book) + tail, encoding="utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--only", action="append", choices=[f"{size}x{size}" for size in SIZES], help="sizes"
    )
    arguments.add_argument(
        "--cost", action="append", type=int, choices=COSTS, help="cost of an exec, ms"
    )
    arguments.add_argument("--policy", action="append", choices=POLICIES)
    arguments.add_argument(
        "--give-up", action="append", type=int, choices=GIVE_UPS, help="deny time-out, s"
    )
    arguments.add_argument("--method", action="append", choices=METHODS)
    arguments.add_argument("--missing", action="store_true", help="only what has not been measured")
    given = arguments.parse_args()
    began = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    sizes = [size for size in SIZES if not given.only or f"{size}x{size}" in given.only]
    book = Book()
    for cost in given.cost or COSTS:
        with tempfile.TemporaryDirectory(prefix="probing-") as folder:
            with lab("ten-nodes", [f"timing.exec_cost_ms={cost}"]) as cluster:
                where = topology(cluster.kubeconfig, Path(folder), max(sizes))
                harness = Harness(where, book, cost, began)
                for policy in given.policy or POLICIES:
                    where.enforce(policy)
                    for size in sizes:
                        for give_up in given.give_up or GIVE_UPS:
                            if policy == "open" and give_up != GIVE_UPS[0]:
                                continue  # nothing is denied or given up
                            key = (size, cost, policy, give_up)
                            methods = [
                                method for method in given.method or METHODS
                                if not (given.missing and (*key, method) in book.figures)
                                and (method != "cold" or give_up == GIVE_UPS[0])
                                and (method != "decision" or (size == SIZES[0] and policy == "half"))
                            ]  # fmt: skip
                            harness.cell(size, policy, give_up, methods)
                    write(book)
                where.kube.close()


if __name__ == "__main__":
    main()
