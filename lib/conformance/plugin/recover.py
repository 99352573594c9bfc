"""The commands ``--restore`` and ``--janitor``, which do the same; ``--janitor --dry-run`` only says what there is.

Their exit codes: 0 all is as it was; 6 something is left (somebody else's value, something to do by hand, pods that do
not reach each other); 4 and 7 as for any run.
"""

import fcntl
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from conformance.errors import ClusterUnusable, SuiteError, UsageProblem, first_line
from conformance.facts.preflight import lacking_rights
from conformance.journal import liveness
from conformance.kube.access import Access
from conformance.kube.client import Kube, first_contact
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.plugin import options
from conformance.run.choice import Choice
from conformance.undo.dead_runs import FINDING_RIGHTS, clear_up


def command(config: pytest.Config, door: Callable[[Choice], Access]) -> int:
    """Carry out ``--restore`` or ``--janitor``; returns the exit code."""
    option = config.option
    try:
        choice = options.read_choice(config)
        settings = options.read_settings(config, choice, f"r{secrets.token_hex(3)}", "main")
        word = "--janitor" if option.janitor else "--restore"
        if choice.own_lab:
            raise UsageProblem(f"{word} is for a cluster that stays: name it by --kubeconfig=PATH")
        if option.plan:
            raise UsageProblem(
                f"{word} --plan contradict each other: pytest --janitor --dry-run says what there is"
            )
        if option.dry_run and option.restore:
            raise UsageProblem(
                "--restore --dry-run: ask  pytest --janitor --dry-run  what there is to restore"
            )
        access = door(choice)
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None
    kube = Kube(access, settings.timings.run, read_only=settings.reads_only)
    try:
        with _signature() as process:
            return clear_up(kube, settings, process, dry_run=option.dry_run, named=option.run or "")
    except UsageProblem as error:
        raise pytest.UsageError(str(error)) from None
    except (ApiRefused, ApiUnreachable) as error:
        lacking = (
            lacking_rights(kube, FINDING_RIGHTS)
            if isinstance(error, ApiRefused) and error.forbidden
            else []
        )
        told: Sequence[str] = lacking or [first_contact(access, error)]
    except ClusterUnusable as unusable:
        told = unusable.reasons
    except SuiteError as error:
        told = [first_line(error)]
    finally:
        kube.close()
    for line in told:
        print(f"ERROR: {line}", file=sys.stderr)
    return 7


@contextmanager
def _signature() -> Iterator[str]:
    """What signs all that is made meanwhile: should this process be killed, the next one can tell that it is dead."""
    with TemporaryDirectory(prefix="calico-conformance-") as folder:
        path = Path(folder) / "alive"
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield liveness.sign(path)
