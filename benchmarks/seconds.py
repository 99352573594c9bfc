# SPDX-License-Identifier: Apache-2.0
"""Write the cost and the benefit of each test: ``python -m benchmarks.seconds``.

It writes lib/conformance/schedule/tests.json and a paragraph of docs/selecting.md.  It runs the
whole suite twice: on a lab, and on a lab as slow as a real cluster, with the judge's own patience
and six workers, so that it takes a quarter of an hour.  ``--lab`` and ``--real`` name reports of
such runs instead.  What a test shows is read from the detection table (tests/detection/rows).

The tests are written in the order in which they run: first those of ``--quick``, then the others by
rows per second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.qualify.sets import sets
from conformance.schedule.order import WORLDS, key_of
from tests.detection.table import RED, read

ROOT = Path(__file__).parents[1]
DATA = ROOT / "lib" / "conformance" / "schedule" / "tests.json"
SLOW = {
    "exec_cost_ms": 500, "powershell_start_ms": 1500, "windows_refused_ms": 1000,
    "linux_policy_delay_ms": 200, "windows_policy_delay_ms": 500, "image_pull_ms": 5000,
    "pod_start_ms": 1500, "daemon_replaced_ms": 5000,
}  # fmt: skip
"""The timings of a real cluster with warm caches (tests/lab/rbac/test_whole_runs.py)."""
PAGE = ROOT / "docs" / "selecting.md"
BEGIN, END = "<!-- quick: begin (python -m benchmarks.seconds) -->", "<!-- quick: end -->"
BEHIND = "this machine was behind"
"""The note in a report that shows how slow the machine was."""
WORKERS = 2
"""The number of workers that ``-n auto`` starts for ``--quick`` on a real cluster."""
MINUTES = 4.0
"""The maximum minutes of ``--quick`` with real timings."""
AROUND = 120.0
"""s. The part of these minutes for facts, namespaces, the first pods and agents of each worker, and
for the end. Measured at a load of 11 to 20: a run is 116 s longer than the seconds of its tests,
two at a time."""
LEAST = 0.2
"""s. Tests that take less count as this long, since handing a test to a worker takes as long."""
WATCH = "policy/test_standing_watch.py::"
"""The standing watch. Its tests take no worker's time: it runs beside all other tests, which
therefore need not observe each first denial for 15 s themselves."""
COLLECT = """
import os, sys, pytest

class Chosen:
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config):
        for word in sys.argv[1:]:
            child = os.fork()  # what is collected is the same for every word
            if not child:
                config.option.keyword = word
                return (yield)
            os.waitpid(child, 0)
        os._exit(0)

    def pytest_collection_finish(self, session):
        print("\\nchosen " + "\\t".join(item.nodeid for item in session.items), flush=True)
        os._exit(0)

pytest.main(["--collect-only", "-q", "-s", "-p", "no:cacheprovider"], plugins=[Chosen()])
"""


@dataclass(eq=False)
class Measured:
    """A test with its measured times."""

    name: str
    lab: float | None
    """The seconds on a healthy lab; None: the test decided nothing there."""
    real: float | None
    """The seconds with real timings; None for the same reason."""
    claims: frozenset[str]
    exclusive: bool
    rows: list[frozenset[str]] = field(default_factory=list)
    """The rows with a red claim that this test is about, each as the set of tests that may be red
    in the row."""

    @property
    def cost(self) -> float:
        """Return the seconds of a worker on a real cluster; if they are unknown, five times the
        lab's."""
        return max(LEAST, 5 * (self.lab or 0.0) if self.real is None else self.real)


def measured(lab: Mapping[str, Any], real: Mapping[str, Any]) -> list[Measured]:
    """Return the tests of two reports of runs on a healthy lab."""
    quick, slow = (
        {key_of(test["test"]): test["seconds"] for test in plain["tests"] if decided(test)}
        for plain in (lab, real)
    )
    tests = {key_of(test["test"]): test for test in (*real["tests"], *lab["tests"])}
    return [
        Measured(
            name=name,
            lab=quick.get(name),
            real=slow.get(name),
            claims=frozenset(test["claims"]),
            exclusive=bool(test["exclusive"]),
        )
        for name, test in tests.items()
        if name in quick or name in slow
    ]


def decided(test: Mapping[str, Any]) -> bool:
    """Return whether a test ran and gave the result that a healthy lab must have."""
    return test["ran"] and test["verdict"] in ("CONFIRMED", "NOT_OBSERVED", "LIFTED", "ADVISED")


def rows_of(tests: Sequence[Measured]) -> dict[str, frozenset[str]]:
    """Map each row of the table with a red claim to the tests that may be red in it."""
    red = [row for row in read().rows if any(word in RED for word in row.expect.values())]
    words = sorted({row.only for row in red if row.only})
    chosen = dict(zip(words, selected(*words), strict=True))
    found = {}
    for row in red:
        claims = {claim for claim, word in row.expect.items() if word in RED}
        fitting = chosen.get(row.only)
        about = frozenset(
            test.name
            for test in tests
            if test.claims & claims and (fitting is None or test.name in fitting)
        )
        if about:
            found[row.name] = about
    return found


def selected(*words: str) -> list[frozenset[str]]:
    """Return the tests that each ``-k`` expression selects."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, *words], cwd=ROOT, capture_output=True, text=True,
        timeout=600, check=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("chosen")]
    if len(lines) != len(words):
        raise RuntimeError(
            f"{len(words)} expressions, {len(lines)} answers:\n{done.stdout[-3000:]}"
        )
    return [frozenset(map(key_of, filter(None, line[7:].split("\t")))) for line in lines]


def greedy(
    tests: Iterable[Measured], rows: Mapping[str, frozenset[str]], shown: Counter[str]
) -> list[Measured]:
    """Return the tests in the order in which each adds the most rows per second; ``shown`` counts
    the rows that earlier tests show.

    Which of the tests that may be red in a row really is red is not known, so each test shows an
    equal share of the row. A row that other tests have shown already is worth less.
    """
    left = {test.name: test for test in tests}
    of_test: dict[str, list[str]] = {name: [] for name in left}
    for row, names in rows.items():
        for name in names & left.keys():
            of_test[name].append(row)

    def worth(test: Measured) -> float:
        return sum(1 / len(rows[row]) / (1 + shown[row]) for row in of_test[test.name]) / test.cost

    found = []
    while left:
        best = max(left.values(), key=lambda test: (worth(test), test.name))
        shown.update(of_test[best.name])
        found.append(left.pop(best.name))
    return found


def quick(tests: Sequence[Measured], rows: Mapping[str, frozenset[str]]) -> list[Measured]:
    """Return the tests of ``--quick``: at least one test for each claim of ``core``, then the most
    valuable ones."""
    budget = WORKERS * (60 * MINUTES - AROUND)
    fit = [test for test in tests if not test.exclusive and not test.name.startswith(WORLDS)]
    shown: Counter[str] = Counter()
    chosen = [test for test in fit if test.name.startswith(WATCH)]
    core = [demand.claim for demand in sets()["core"].demands]
    for test in greedy(fit, rows, Counter()):
        fresh = {claim for claim in core if claim in test.claims} - {
            claim for each in chosen for claim in each.claims
        }
        if fresh:
            chosen.append(test)
    for name, about in rows.items():
        shown[name] += len(about & {test.name for test in chosen})
    budget -= sum(test.cost for test in chosen if not test.name.startswith(WATCH))
    for test in greedy([test for test in fit if test not in chosen], rows, shown):
        if test.cost <= budget and test.rows:
            chosen.append(test)
            budget -= test.cost
    return chosen


def shares(rows: Mapping[str, frozenset[str]], names: Collection[str]) -> tuple[int, int]:
    """Return two numbers of rows: rows of which all possibly red tests are among ``names``, and
    rows of which any is."""
    there = set(names)
    return sum(about <= there for about in rows.values()), sum(
        bool(about & there) for about in rows.values()
    )


def document(lab: Mapping[str, Any], real: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the data file."""
    tests = measured(lab, real)
    rows = rows_of(tests)
    for test in tests:
        test.rows = [about for about in rows.values() if test.name in about]
    first = quick(tests, rows)
    shown: Counter[str] = Counter(
        row for row, about in rows.items() for test in first if test.name in about
    )
    others = greedy([test for test in tests if test not in first], rows, shown)
    all_of, any_of = shares(rows, [test.name for test in first])
    timed = [test for test in first if not test.name.startswith(WATCH)]
    return {
        "written by": "python -m benchmarks.seconds",
        "of": {
            name: {
                "started": report["run"]["started"], "seconds": report["run"]["seconds"],
                "behind": [note for note in report["run"]["notes"] if BEHIND in note],
            }
            for name, report in (("lab", lab), ("real", real))
        },
        "quick": {
            "tests": len(first), "lab": round(sum(test.lab or 0.0 for test in timed)),
            "real": round(sum(test.cost for test in timed)),
            "rows": sum(any(word in RED for word in row.expect.values()) for row in read().rows),
            "all": all_of, "any": any_of,
        },
        "claims": dict(sorted(Counter(claim for test in tests for claim in test.claims).items())),
        "tests": [
            {
                "test": test.name, "lab": test.lab, "real": test.real, "rows": len(test.rows),
                **({"quick": True} if test in first else {}),
            }
            for test in (*first, *others)
        ],
    }  # fmt: skip


def written(plain: Mapping[str, Any]) -> str:
    """Return the data file's text, with one test per line."""
    head = {name: value for name, value in plain.items() if name != "tests"}
    text = json.dumps(head, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(test)}" for test in plain["tests"])
    return f'{text},\n "tests": [\n{lines}\n ]\n}}\n'


def paragraph(found: Mapping[str, Any]) -> str:
    """Return the paragraph of docs/selecting.md about ``--quick``; ``found`` is the content of the
    data file."""
    rows = found["rows"]
    text = (
        f"It has {found['tests']} tests: at least one for each claim of the set `core`, then those "
        "that show most known faults per second. With real timings they take "
        f"{found['real']} seconds of a worker. In the detection table, {rows} rows turn a claim "
        f"red. For {found['all']} of them ({100 * found['all'] // rows} %) the quick run has every "
        f"test that may be red, for {found['any']} ({100 * found['any'] // rows} %) at least one. "
        "The share that it finds lies between these two."
    )
    return "\n".join((BEGIN, textwrap.fill(text, 120), END))


def with_paragraph(page: str, found: Mapping[str, Any]) -> str:
    """Return the page with the present paragraph."""
    before, _, rest = page.partition(BEGIN)
    return before + paragraph(found) + rest.partition(END)[2]


def run(folder: Path, *arguments: str) -> Mapping[str, Any]:
    """Run the suite and return its report."""
    suite = [sys.executable, "-m", "pytest", "-n", "6", f"--report-dir={folder}"]
    subprocess.run([*suite, *arguments], cwd=ROOT, check=False)
    return report(folder / "latest")


def run_slow(folder: Path) -> Mapping[str, Any]:
    """Run the suite on a lab with the timings of a real cluster, and return its report."""
    kubeconfig = folder / "kubeconfig"
    settings = [
        word for name, value in SLOW.items() for word in ("--set", f"timing.{name}={value}")
    ]
    command = [sys.executable, "-m", "hybridlab", "up", "--kubeconfig", str(kubeconfig), *settings]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as lab:
        try:
            assert lab.stdout is not None
            lab.stdout.readline()
            options = ("--workers-per-windows-node=6", "--external-target=198.51.100.10")
            return run(folder, f"--kubeconfig={kubeconfig}", *options)
        finally:
            lab.terminate()


def report(path: Path) -> Mapping[str, Any]:
    """Return a report's JSON form."""
    file = path / "conformance.json" if path.is_dir() else path
    plain: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return plain


def main() -> None:
    """Run the suite, or read its reports, and write the data file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, help="report of a run on a lab")
    parser.add_argument(
        "--real", type=Path, help="report of a run with the timings of a real cluster"
    )
    given = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(ROOT / "lib"))
    with tempfile.TemporaryDirectory() as folder:
        lab = report(given.lab) if given.lab else run(Path(folder) / "lab")
        real = report(given.real) if given.real else run_slow(Path(folder) / "real")
    plain = document(lab, real)
    DATA.write_text(written(plain), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_paragraph(page, plain["quick"]), encoding="utf-8")
    print(plain["quick"])


if __name__ == "__main__":
    main()
