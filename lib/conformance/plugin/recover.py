# SPDX-License-Identifier: Apache-2.0
"""The commands ``--restore`` and ``--janitor``, which do the same; ``--janitor --dry-run`` only
lists leftovers.

Their exit codes: 0 everything is as before the run; 6 something is left (a value of another owner,
a change to restore by hand, pods that do not reach each other); 4 and 7 as for any run.
"""

import fcntl
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, SuiteError, UsageProblem, first_line
from conformance.facts.preflight import lacking_rights
from conformance.journal import liveness
from conformance.kube.access import Access
from conformance.kube.client import Kube
from conformance.kube.first_contact import first_contact
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.plugin import options
from conformance.printing import say
from conformance.run.choice import Choice
from conformance.undo.dead_runs import FINDING_RIGHTS, clear_up


def command(config: pytest.Config, door: Callable[[Choice], Access]) -> int:
    """Carry out ``--restore`` or ``--janitor``; return the exit code."""
    try:
        return _recover(config, door)
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None


def _recover(config: pytest.Config, door: Callable[[Choice], Access]) -> int:
    option = config.option
    choice = options.read_choice(config)
    settings = options.read_settings(config, choice, f"r{secrets.token_hex(3)}", "main")
    _refuse(option, choice)
    access = door(choice)
    say(*(f"note: {why}" for why in (access.unverified,) if why), error=True)
    kube = Kube(access, settings.timings.run, read_only=settings.reads_only)
    try:
        with _signature() as process:
            return clear_up(kube, settings, process, dry_run=option.dry_run, named=option.run or "")
    except UsageProblem:
        raise
    except (ApiRefused, ApiUnreachable) as error:
        is_forbidden = isinstance(error, ApiRefused) and error.forbidden
        lacking = lacking_rights(kube, FINDING_RIGHTS) if is_forbidden else []
        problems: Sequence[str] = lacking or [first_contact(access, error)]
    except ClusterUnusable as unusable:
        problems = unusable.reasons
    except SuiteError as error:
        problems = [first_line(error)]
    finally:
        kube.close()
    say(*(f"ERROR: {line}" for line in problems), error=True)
    return 7


def _refuse(option: Any, choice: Choice) -> None:
    """Raise UsageProblem for options that have no meaning with ``--restore`` or ``--janitor``."""
    word = "--janitor" if option.janitor else "--restore"
    refusals = (
        (
            choice.own_lab,
            f"{word} has no effect on a lab of the run: name a cluster by --kubeconfig=PATH",
        ),
        (
            option.plan,
            f"{word} and --plan contradict each other: "
            "pytest --janitor --dry-run lists what is left",
        ),
        (
            option.dry_run and option.restore,
            "--restore and --dry-run contradict each other: "
            "pytest --janitor --dry-run lists the changes",
        ),
    )
    for is_wrong, message in refusals:
        if is_wrong:
            raise UsageProblem(message)


@contextmanager
def _signature() -> Iterator[str]:
    """Yield the signature that objects carry if they are made inside the block. By the signature, a
    later process can recognise that this process is dead."""
    with TemporaryDirectory(prefix="calico-conformance-") as folder:
        path = Path(folder) / "alive"
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield liveness.sign(path)
