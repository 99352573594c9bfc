# SPDX-License-Identifier: Apache-2.0
"""A run's folder: its reports, and the files that its processes share (plan, locks, slots, epoch).

All workers run on the controller's machine, so files and flock are enough. Other modules take locks
and slots; this module only defines where the files are.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from conformance.errors import EnvironmentBroken
from conformance.model.file_name import file_name

BEGUN = ".began"
"""Ending of the files in :attr:`RunDirectory.turns` that record the beginning of turns which block
other tests. The files are needed since a process may die during such a turn."""


class RunDirectory:
    """``reports/<run>`` and, below ``.run``, the files that its processes share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shared = path / ".run"
        self.locks = self.shared / "locks"
        """Empty files to flock: one per node, one for the cluster."""
        self.slots = self.shared / "slots"
        """Empty files to flock: for each node, a file for each exec that may start at the same
        time."""
        self.plans = self.shared / "plans"
        """The plan of each worker, which is the same for all workers."""
        self.probing = self.shared / "probing"
        """The execs and slots that each process has used."""
        self.images = self.shared / "images"
        """The images that each worker's pods ran."""
        self.late = self.shared / "late"
        """The delays of the suite's own machine (``conformance.probe.machine``)."""
        self.turns = self.shared / "turns"
        """For each turn of a test that is over, a line with the times of this turn (``.jsonl``)."""
        self.watches = self.shared / "watches"
        """An empty file for each denial that some process watches."""
        self.unrestored = self.shared / "unrestored"
        """The changes that exclusive tests may have left (``conformance.run.unrestored``)."""
        self.changes = self.shared / "changes"
        """The changes that the run has made outside its own namespaces and not restored yet: a file
        for each open journal entry."""
        self.alive = self.shared / "alive"
        """A file that every process of the run keeps locked as long as it lives. If the file is not
        locked, the run is dead, and its remains may be removed."""
        self.attachments = path / "attachments"
        self._held: IO[str] | None = None
        self._before: Path | None = None
        """The earlier target of ``latest``; None: there was no ``latest``."""

    @classmethod
    def create(cls, reports: Path) -> tuple[RunDirectory, str]:
        """Make a new folder, named by the time (UTC) and a random id that also names the run's
        namespaces."""
        run_id = secrets.token_hex(3)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
        run = cls(reports / f"{now}-{run_id}")
        for folder in (
            run.locks,
            run.slots,
            run.plans,
            run.turns,
            run.watches,
            run.probing,
            run.images,
            run.late,
            run.unrestored,
            run.changes,
        ):
            folder.mkdir(parents=True, exist_ok=True)
        (run.shared / "epoch").touch()
        latest = reports / "latest"
        run._before = latest.readlink() if latest.is_symlink() else None
        fresh = reports / f".latest-{run_id}"
        with suppress(OSError):  # the volume may not support links, and no run needs this link
            fresh.symlink_to(run.path.name)
            fresh.replace(latest)
        return run, run_id

    def changed_node(self, name: str) -> bool:
        """Return whether an exclusive test of this run has, or had, this node or the whole cluster
        to itself."""
        marks = [
            path
            for folder in (self.turns, self.unrestored)
            for path in folder.glob("*")
            if path.is_file()
        ]
        lines = [line for path in marks for line in path.read_text(encoding="utf-8").splitlines()]
        return any(f'"{name}"' in line or '"kind": "cluster"' in line for line in lines)

    def discard(self) -> None:
        """Remove the folder of a run that did not begin; ``latest`` leads to the previous run
        again."""
        shutil.rmtree(self.path, ignore_errors=True)
        latest = self.path.parent / "latest"
        if latest.is_symlink() and latest.readlink() == Path(self.path.name):
            latest.unlink()
            if self._before is not None:
                latest.symlink_to(self._before)

    def hold(self) -> None:
        """Register this process as a process of the run, until it ends."""
        self._held = self.alive.open("a+")
        fcntl.flock(self._held, fcntl.LOCK_SH)

    def epoch(self) -> int:
        """Return how many exclusive tests have ended. Pods and agents from an earlier epoch must be
        checked again."""
        return (self.shared / "epoch").stat().st_size

    def advance_epoch(self) -> None:
        """Count one more exclusive test that has ended. The counter is a file with one byte per
        test, so that appending is atomic."""
        with (self.shared / "epoch").open("ab") as file:
            file.write(b".")

    def once(self, name: str, work: Callable[[], object]) -> None:
        """Do ``work`` once per run: the first process does it, the other processes wait for it and
        share its result.

        Raise the error of ``work``; in the other processes, raise EnvironmentBroken with its
        message.
        """
        with (self.locks / name).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            ended = file.read()
            if ended.startswith("failed: "):
                raise EnvironmentBroken(ended.removeprefix("failed: "))
            if ended:
                return
            try:
                work()
                file.write("done")
            except Exception as error:
                file.write(f"failed: {error}")
                raise

    def take(self, name: str) -> bool:
        """Try to take the named lock. Return whether this process has it now."""
        try:
            (self.watches / file_name(name)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def give_back(self, name: str) -> None:
        (self.watches / file_name(name)).unlink(missing_ok=True)

    def write(self, folder: Path, worker: str, content: Any) -> None:
        """Write a worker's record into a folder of workers' records, whole or not at all."""
        write_whole(folder / f"{worker}.json", content)

    def read(self, folder: Path) -> list[Any]:
        """Return the workers' records that exist so far."""
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def write_node_fact(self, name: str, node: str, fact: Any) -> None:
        """Write a worker's finding about a node: ``dsr`` or ``update``."""
        write_whole(self.shared / f"{name}-{file_name(node)}.json", {node: fact})

    def read_node_facts(self, name: str) -> dict[str, Any]:
        """Return the workers' findings, by node."""
        found = sorted(self.shared.glob(f"{name}-*.json"))
        return {node: fact for path in found for node, fact in json.loads(path.read_text()).items()}

    @property
    def problem(self) -> Path:
        """Return the file that describes an error in the test files, which every worker finds; the
        file does not exist without an error."""
        return self.plans / "problem.txt"


def write_whole(target: Path, content: Any) -> None:
    """Write a file whole or not at all. If several processes write it at once, the last one
    counts."""
    fresh = target.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps(content))
    fresh.replace(target)


class Epoch:
    """The epoch as one process knows it. An exclusive test ends an epoch; then values that are kept
    from test to test are checked again."""

    def __init__(self, run: RunDirectory | None) -> None:
        self._run = run
        self._known = 0
        self._revalidate: list[Callable[[], object]] = []

    def register(self, revalidate: Callable[[], object]) -> None:
        """Register a function to be called before the first test of each later epoch."""
        self._revalidate.append(revalidate)

    def unregister(self, revalidate: Callable[[], object]) -> None:
        """Remove a registered function."""
        self._revalidate.remove(revalidate)

    def advance(self) -> None:
        """Note that an exclusive test has ended, or is about to be tried again."""
        if self._run:
            self._run.advance_epoch()

    def catch_up(self) -> None:
        """Check the values that were kept from an earlier epoch. After an exception, the epoch does
        not advance."""
        if not self._run:
            return
        now = self._run.epoch()
        if now != self._known:
            for revalidate in list(self._revalidate):
                revalidate()
            self._known = now
