# SPDX-License-Identifier: Apache-2.0
"""Runs with disruptive tests that are killed at many points: ``pytest --restore`` must undo all
their changes.

``python -m tests.reliability.kills --points 50``; an interrupted measurement continues where it
stopped. At each point SIGKILL hits the controller, one worker or all of them, or the API server
cannot be reached for a while. Afterwards the cluster is compared with its state before any run. If
nothing could be hit at a point, the point is tried again at another moment and does not count. A
run or a ``--restore`` that hangs counts as something left behind.

A workload of another owner (``tests.reliability.bystander``) exists during every run, and its
traffic must be the same afterwards. With ``--bystander plain`` nodes may be drained, and a share of
the points is in VXLAN-10's procedure and its healer. With ``--bystander blanket`` its pods would
come back to a cordoned node, so no node may be drained.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from tests.reliability import snapshot
from tests.reliability.bystander import TOLERATIONS, Kind
from tests.reliability.document import write
from tests.reliability.ending import end_on_sigterm
from tests.reliability.hit_run import (
    NO_DRAIN,
    NO_WORKER,
    RUN_WITHIN,
    SUITES,
    UNREACHABLE,
    Harness,
    Point,
    Victim,
    end_all,
    harness,
)
from tests.reliability.snapshot import Snapshot
from tests.reliability.source import ROOT, source

KEPT = ROOT / "reports" / "reliability"
RUNS = KEPT / "kills.jsonl"
WRITING = threading.Lock()
PER_LAB = 10
"""The number of points after which a new lab is started. A point that leaves anything behind ends
its lab at once."""
TRIES = 3
"""The maximum number of tries of a point that hits nothing."""
LATER = 1.0
"""s. The additional delay of a point at which the run had no worker yet."""
STARTING = 1 / 5
"""The share of points before the first journalled change."""
IN_PROCEDURE = 10
"""The number of points in VXLAN-10's procedure and its healer; at most half of all points."""
DRAINS = 4
"""How often a run on the default lab drains a node: the test drains two nodes, and drains both
again when it restores the VNI."""
DRAIN_LASTS = 4.0
"""s. The time from a node's cordon to its new network."""
EXPECTED: dict[Kind, str] = {"plain": "CONFIRMED", "blanket": "NOT_RUN"}
"""The verdict of VXLAN-10 in a run that is not killed, beside each kind of workload."""

WHOLE = "pods of both operating systems reach each other in all directions"
"""The output of --restore if it has restored something and then checked the network."""

VICTIMS: tuple[Victim, ...] = (
    "controller",
    "worker",
    "all",
    "all",
    "worker",
    "controller",
    "api",
    "controller",
    "all",
    "worker",
)


@dataclass(frozen=True, kw_only=True)
class Kill:
    """The result of one point."""

    number: int
    source: str
    bystander: Kind
    victim: Victim
    changed: bool
    after: float
    drained: int = 0
    phase: str = ""
    """The phase of the run when it was hit."""
    missed: str = ""
    """The reason why nothing was hit; empty: the victim was hit."""
    open_at_hit: int = 0
    """The number of changes that were journalled and not closed at the hit."""
    open_entries: int = 0
    """The number of journalled changes that were still open at the run's end: a run that is partly
    alive undoes its own changes."""
    restored: int = 0
    """The number of output lines of --restore about restored objects."""
    healed: int = 0
    """The number of nodes to which --restore gave a network with the earlier VNI."""
    keys: int = 0
    """The number of files with a private key that were left in TMPDIR; they do not count as a
    failure here."""
    exit_code: int = -1
    """The exit code of --restore; -1: it did not end."""
    seconds: float = 0.0
    """The duration of --restore."""
    left: tuple[str, ...] = ()
    """Differences from the state before, faults of the network, and hanging processes."""

    @property
    def failed(self) -> bool:
        """Return whether anything was left behind."""
        return bool(self.left) or self.exit_code != 0


def one_point(harness: Harness, point: Point, before: Snapshot) -> Kill:
    """Hit one run, restore, and compare."""
    run = harness.start()
    try:
        strike = harness.hit(point, run)
    finally:
        end_all(run)
    entries = harness.open_entries()
    code, output, seconds = harness.restore()
    left = [*strike.problem, *harness.left(before, seen_whole=WHOLE in output)]
    if left or code:
        left += [f"--restore said: {line}" for line in output.splitlines()[-6:]]
    return replace(
        _nothing_known(point, harness),
        phase=strike.phase,
        healed=output.count("healed by hns-network"),
        keys=harness.keys_left(),
        missed=strike.missed,
        open_at_hit=strike.open,
        open_entries=entries,
        restored=sum(": restored: " in line for line in output.splitlines()),
        exit_code=code,
        seconds=round(seconds, 2),
        left=tuple(left),
    )


def _nothing_known(point: Point, harness: Harness) -> Kill:
    return Kill(
        number=point.number, source=source(), bystander=harness.bystander.kind if harness.bystander else "plain",
        victim=point.victim, changed=point.changed, after=round(point.after, 2), drained=point.drained,
    )  # fmt: skip


def pending(plan: Sequence[Point], kills: Sequence[Kill]) -> list[Point]:
    """Return the remaining points: those that were not tried, and, at another moment, those that
    hit nothing."""
    tries = [(point, [kill for kill in kills if kill.number == point.number]) for point in plan]
    return [
        _elsewhere(point, of_it)
        for point, of_it in tries
        if all(kill.missed for kill in of_it) and len(of_it) < TRIES
    ]


def _elsewhere(point: Point, missed: Sequence[Kill]) -> Point:
    """Return the point at another moment: earlier if the run had ended or had drained fewer nodes,
    later if it had no worker yet."""
    after, drained = point.after, point.drained
    for kill in missed:
        if kill.missed == NO_DRAIN:
            drained = max(1, drained - 1)
            continue
        after = after + LATER if kill.missed == NO_WORKER and not point.changed else after / 2
    return replace(point, after=after, drained=drained)


def plan(count: int, lasting: float, bystander: Kind) -> list[Point]:
    """Return this many points over a run. If nodes are drained, IN_PROCEDURE of the points, but at
    most half, are during a drain."""
    draining = min(IN_PROCEDURE, count // 2) if bystander == "plain" else 0
    rounds = -(-draining // DRAINS)
    found = points(count - draining, lasting)
    for number in range(draining):
        after = DRAIN_LASTS * (number // DRAINS + 0.5) / rounds
        found.append(
            Point(
                number=len(found), victim=VICTIMS[len(found) % len(VICTIMS)], changed=True, after=after,
                drained=number % DRAINS + 1,
            )
        )  # fmt: skip
    return found


def points(count: int, lasting: float) -> list[Point]:
    """Return this many points over a run whose disruptive tests last ``lasting`` seconds."""
    starting = round(count * STARTING)
    found = []
    for number in range(count):
        changed = number >= starting
        share = (
            (number - starting) / max(1, count - starting) if changed else (number + 1) / starting
        )
        found.append(
            Point(
                number=number, victim=VICTIMS[number % len(VICTIMS)], changed=changed,
                after=share * lasting if changed else 0.5 + 3 * share,
            )
        )  # fmt: skip
    return found


def lasting(profile: str, bystander: Kind) -> float:
    """Return the seconds that the changes of a whole run last.

    Raise RuntimeError if such a run leaves something behind, or if its verdict on VXLAN-10 is not
    the expected one beside this kind of workload.
    """
    with harness(profile, bystander=bystander) as one:
        before = snapshot.take(one.kube)
        run = one.start()
        while not one.open_entries() and run.poll() is None:
            time.sleep(0.1)
        begun = time.monotonic()
        run.wait(RUN_WITHIN)
        seconds = time.monotonic() - begun
        one.restore()
        left = one.left(before)
        if left:
            raise RuntimeError(f"a run that was not killed left: {left}")
        if (said := one.verdicts().get("VXLAN-10")) != EXPECTED[bystander]:
            raise RuntimeError(
                f"a run that was not killed said {said} of VXLAN-10 beside a {bystander} bystander"
            )
        return seconds


def known(path: Path | None = None, *, bystander: Kind | None = None) -> list[Kill]:
    """Return the recorded tries of the present source, beside this kind of workload or any. Records
    with other fields than today's are left out."""
    path = path or RUNS
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wanted = {field.name for field in fields(Kill)}
    return [
        Kill(**{**entry, "left": tuple(entry["left"])})
        for entry in entries
        if entry["source"] == source()
        and entry.keys() == wanted
        and bystander in (None, entry["bystander"])
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the remaining points; return 1 if anything was left behind."""
    parser = argparse.ArgumentParser(description="Kill runs at many points, restore, compare.")
    parser.add_argument("--points", type=int, default=50, help="default: %(default)s")
    parser.add_argument(
        "--labs", type=int, default=1, help="that are used at once (default: %(default)s)"
    )
    parser.add_argument("--profile", default="default", help="of the labs (default: %(default)s)")
    parser.add_argument(
        "--bystander",
        choices=list(TOLERATIONS),
        default="plain",
        help="beside it (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        type=int,
        nargs="+",
        metavar="N",
        help="these of the points alone, by number from 0; writes no page",
    )
    options = parser.parse_args(arguments)
    if wrong := [number for number in options.only or () if not 0 <= number < options.points]:
        parser.error(
            f"--only {' '.join(map(str, wrong))}: there are points 0 to {options.points - 1}"
        )
    end_on_sigterm()
    KEPT.mkdir(parents=True, exist_ok=True)
    kind: Kind = options.bystander
    numbers = set(options.only if options.only is not None else range(options.points))
    if _todo(plan(options.points, 0.0, kind), kind, numbers):
        planned = plan(options.points, lasting(options.profile, kind), kind)
        while todo := _todo(planned, kind, numbers):
            take_all(todo, options.profile, options.labs, kind)
    kills = [kill for kill in known(bystander=kind) if kill.number in numbers]
    if options.only is None:
        write(
            "killed runs",
            [line for each in TOLERATIONS for line in summary(known(bystander=each), options.labs)],
        )
    left = sum(kill.failed for kill in kills)
    hit = [kill for kill in kills if not kill.missed]
    told = ", ".join(
        f"{phase}: {count}" for phase, count in Counter(kill.phase for kill in hit).items()
    )
    print(
        f"{len({kill.number for kill in hit})} points hit ({told}), {left} with something left behind"
    )
    return 1 if left else 0


def _todo(planned: Sequence[Point], bystander: Kind, numbers: set[int]) -> list[Point]:
    return [
        point for point in pending(planned, known(bystander=bystander)) if point.number in numbers
    ]


def take_all(todo: Sequence[Point], profile: str, labs: int, bystander: Kind = "plain") -> None:
    """Do the points on this number of labs at the same time; an interruption takes effect after the
    present points."""
    ended = threading.Event()

    def on_one_lab(some: Sequence[Point]) -> None:
        if not ended.is_set():
            with harness(profile, bystander=bystander) as one:
                take(some, one, snapshot.take(one.kube), ended)

    with ThreadPoolExecutor(labs) as pool:
        try:
            list(
                pool.map(on_one_lab, [todo[i : i + PER_LAB] for i in range(0, len(todo), PER_LAB)])
            )
        finally:
            ended.set()


def take(todo: Sequence[Point], harness: Harness, before: Snapshot, ended: threading.Event) -> None:
    """Do points on one lab until one of them leaves something behind; record each result at
    once."""
    for point in todo:
        if ended.is_set():
            return
        try:
            kill = one_point(harness, point, before)
        except Exception as error:  # the point is not repeated: the cause of this error is unknown
            kill = replace(
                _nothing_known(point, harness), left=(f"broke: {type(error).__name__}: {error}",)
            )
        with WRITING, RUNS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(kill)) + "\n")
        state = (
            f"LEFT {'; '.join(kill.left)}"
            if kill.failed
            else f"{kill.restored} put back, nothing left"
        )
        state = f"hit nothing ({kill.missed}); {state}" if kill.missed else state
        where = f"{kill.victim}, in {kill.phase or 'nothing'}, {kill.healed} healed, {kill.keys} keys left"
        print(f"point {kill.number}: {where}, {kill.seconds:.1f} s: {state}", flush=True)
        if kill.failed:
            return


def summary(kills: Sequence[Kill], labs: int = 1) -> list[str]:
    """Return the lines of the document: tries that hit something, and the number and remains of all
    other tries."""
    if not kills:
        return []
    hit = [kill for kill in kills if not kill.missed]
    lines = [
        f"Beside a bystander whose Windows pods tolerate {json.dumps(TOLERATIONS[kills[0].bystander][0])}:",
        "",
        "| hit | points | with open changes | left to `--restore` | objects that it restored | something left | "
        "seconds of `--restore`, where changes were left to it: median | slowest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = {
        "controller": "controller, SIGKILL", "worker": "one worker, SIGKILL", "all": "all processes, SIGKILL",
        "api": f"API server, unreachable for {UNREACHABLE:g} s",
    }  # fmt: skip
    for victim, name in names.items():
        some = [kill for kill in kills if kill.victim == victim and not kill.missed]
        took = sorted(kill.seconds for kill in some if kill.open_entries)
        times = f"{took[len(took) // 2]:.1f} | {took[-1]:.1f}" if took else "- | -"
        if some:
            lines.append(
                f"| {name} | {len(some)} | {sum(kill.open_at_hit > 0 for kill in some)} | {len(took)} | "
                f"{sum(kill.restored for kill in some)} | {sum(kill.failed for kill in some)} | {times} |"
            )
    lines += [
        f"- point {kill.number} ({kill.victim}{f', not hit: {kill.missed}' if kill.missed else ''}): {line}"
        for kill in kills
        for line in kill.left
    ]
    missed = [kill for kill in kills if kill.missed]
    reasons = ", ".join(
        f"{reason}: {count}" for reason, count in Counter(kill.missed for kill in missed).items()
    )
    never = {kill.number for kill in missed} - {kill.number for kill in kills if not kill.missed}
    tries = f"{len(missed)} {'try' if len(missed) == 1 else 'tries'} that hit nothing"
    phases = ", ".join(
        f"{phase}: {count}" for phase, count in Counter(kill.phase for kill in hit).most_common()
    )
    return [
        *lines,
        "",
        f"Points by the procedure that was hit: {phases or 'none'}.",
        f"At {sum(kill.healed > 0 for kill in hit)} points, `--restore` made the nodes' networks anew with their "
        f"earlier VNI. Files with a private key left in TMPDIR: {sum(kill.keys for kill in hit)}.",
        f"Not counted: {tries}{f' ({reasons})' if reasons else ''}. Such a point was tried again at another moment,",
        f"at most {TRIES} times in all. Points that no try hit: {len(never)}.",
        f"Suites: {', '.join(SUITES)}, 2 workers,",
        f"a new lab for every {PER_LAB} points{f', {labs} labs at once' if labs > 1 else ''}.",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
