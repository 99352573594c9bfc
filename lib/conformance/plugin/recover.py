"""Putting clusters back as they were before runs that died: ``--restore``, ``--janitor``, and before the next run.

Exit codes of the two commands: 0 all is as it was; 6 something is left (somebody else's value, something to do by hand,
pods that do not reach each other); 4 and 7 as for any run.
"""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Callable, Sequence

import pytest

from conformance.cluster.detect import detect
from conformance.cluster.journal import Journal, Outcome
from conformance.cluster.journal.restore import restore
from conformance.cluster.preflight import lacking_rights
from conformance.cluster.recovery import Recovered, Recovery
from conformance.cluster.remains import Remains
from conformance.errors import UsageProblem
from conformance.kube.access import Access
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, first_contact
from conformance.kube.ownership import Ownership
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.rights import Right
from conformance.model.facts import Facts
from conformance.plugin import options
from conformance.plugin.choice import Choice
from conformance.plugin.healers import healers_of
from conformance.plugin.provider import PutBack
from conformance.plugin.whole import not_whole
from conformance.settings import Settings

LEFT = 6
FORBIDDEN = 403
RIGHTS = (
    Right("list", "namespaces", needed_for="find what dead runs left"),
    Right("list", "nodes", needed_for="find nodes that dead runs cordoned"),
    Right("list", "configmaps", namespace="calico-conformance-system", needed_for="find journals"),
    Right("list", "leases", "coordination.k8s.io", namespace="calico-conformance-system", needed_for="find run locks"),
)
"""What finding takes; what putting back takes depends on what was changed."""


def command(config: pytest.Config, door: Callable[[Choice], Access]) -> int:
    """Carry out ``--restore`` or ``--janitor``; returns the exit code."""
    option = config.option
    try:
        choice = options.read_choice(config)
        settings = options.read_settings(config, choice, f"r{secrets.token_hex(3)}", "main")
        word = "--janitor" if option.janitor else "--restore"
        if choice.own_lab:
            raise UsageProblem(f"{word} is for a cluster that stays: name it by --kubeconfig=PATH")
        if option.dry_run and option.restore:
            raise UsageProblem("--restore --dry-run: ask  pytest --janitor --dry-run  what there is to restore")
        access = door(choice)
    except UsageProblem as trouble:
        raise pytest.UsageError(str(trouble)) from None
    kube = Kube(access, settings.timings.run)
    try:
        return _carry_out(kube, settings, janitor=option.janitor, dry_run=option.dry_run)
    except (ApiRefused, ApiUnreachable) as trouble:
        lacking = lacking_rights(kube, RIGHTS) if isinstance(trouble, ApiRefused) and trouble.code == FORBIDDEN else []
        for line in lacking or [first_contact(access, trouble)]:
            print(f"ERROR: {line}", file=sys.stderr)
        return 7
    finally:
        kube.close()


def _carry_out(kube: Kube, settings: Settings, *, janitor: bool, dry_run: bool) -> int:
    facts = detect(kube, evidence="field")
    recovery = recovery_of(kube, facts, settings)
    dead, alive = recovery.dead()
    for line in alive:
        print(line)
    if dry_run:
        lines = [line for one in dead for line in one.lines()]
        print("\n".join(lines) or "nothing was left by dead runs")
        print("dry run: nothing was changed" if lines else "")
        return 0
    result = recovery.recover(dead, print)
    if not alive:
        recovery.tidy(result, print)
    if not result.anything:
        print("nothing was left by dead runs")
        return 0
    if result.restored:
        trouble = not_whole(kube, _anew(kube), settings)
        print(trouble or "pods of both operating systems reach each other in all directions")
        result.left += [trouble] if trouble else []
    print(summary(result))
    return 0 if result.whole else LEFT


def before_a_run(
    kube: Kube, facts: Facts, settings: Settings, *, named_by: Sequence[str], tell: Callable[[str], None]
) -> list[str]:
    """Put back what dead runs changed, if this run may; else, or where it could not be done, why no run can begin."""
    command = shlex.join(["pytest", *named_by, "--restore"])
    recovery = recovery_of(kube, facts, settings)
    try:
        dead = [one for one in recovery.dead(own=settings.run_id)[0] if one.entries]
    except ApiRefused as refusal:
        if refusal.code != FORBIDDEN:
            raise
        return []  # who may not read journals may not change what they speak of either
    if not dead:
        return []
    if not settings.disruptive:
        return [_unrestored(one, command) for one in dead]
    result = recovery.recover(dead, tell)
    trouble = not_whole(kube, _anew(kube), settings) if result.changed else ""
    if trouble:
        tell(trouble)
    failed = [str(one) for one in result.restored if one.outcome is Outcome.FAILED]
    return [f"{line} (then: {command})" for line in failed]


def recovery_of(kube: Kube, facts: Facts, settings: Settings) -> Recovery:
    """How this cluster is recovered."""
    timings = settings.timings
    healers = healers_of(Changes(kube, Ownership(settings.run_id, settings.worker)), facts, settings)
    return Recovery(
        kube, healers, within=timings.run.journal, delete=timings.windows.delete, abandoned=timings.run.abandoned
    )


def of_a_worker(kube: Kube, facts: Facts, settings: Settings, worker: str) -> PutBack:
    """Put back what one process of this run has changed, or every one (empty), now that it has ended.

    Others of the run go on after one's end: that the cluster is as before is shown by traffic then.
    """
    run = Ownership(settings.run_id)
    journal = Journal(kube, run, within=settings.timings.run.journal)
    if not any(entry.open and worker in ("", entry.worker) for entry in journal.entries()):
        return PutBack()
    healers = recovery_of(kube, facts, settings).healers
    done = restore(journal, Changes(kube, run), healers, only=lambda entry: worker in ("", entry.worker))
    lines = [str(one) for one in done]
    trouble = next((str(one) for one in done if one.outcome in (Outcome.CONFLICT, Outcome.FAILED)), "")
    if worker and not trouble and any(one.outcome is Outcome.RESTORED for one in done):
        trouble = not_whole(kube, _anew(kube), settings)
        lines += [trouble] if trouble else []
    return PutBack(lines=tuple(lines), trouble=trouble)


def _anew(kube: Kube) -> Facts:
    """Facts after the recovery: nodes take pods again."""
    return detect(kube, evidence="field")


def summary(result: Recovered) -> str:
    """One line."""
    counts = [f"{sum(one.outcome == outcome for one in result.restored)} {outcome}" for outcome in
              dict.fromkeys(one.outcome for one in result.restored)]  # fmt: skip
    counts += [f"{len(result.lines)} leftovers removed"] if result.lines else []
    counts += [f"{len(result.left)} left to do"] if result.left else []
    return ", ".join(counts)


def _unrestored(one: Remains, command: str) -> str:
    return (
        f"run {one.run}, begun {one.since:%Y-%m-%d %H:%M} UTC, died and left {len(one.entries)} "
        f"change{'' if len(one.entries) == 1 else 's'} of the cluster ({one.entries[-1].label}); put it back first: "
        f"{command}  (a run with --allow-disruptive does so by itself)"
    )
