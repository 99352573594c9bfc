# SPDX-License-Identifier: Apache-2.0
"""The judge's exceptions, in two families that must never be mixed up.

:class:`Nonconformance` says something about the cluster and is an ``AssertionError``: pytest shows FAILED, Allure
"failed".  Everything else says something about the suite, its probes or its surroundings, is no ``AssertionError``,
and makes a claim INCONCLUSIVE or NOT_RUN: pytest shows ERROR or SKIPPED, Allure "broken" or "skipped".  No broken probe
is ever counted as "traffic denied".
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.model.attempt import Attempt
    from conformance.model.explanation import Explanation
    from conformance.model.observation import Observation


class Nonconformance(AssertionError):
    """The cluster does not do what the claim says.  ``seen`` are the observations that show it."""

    explanation: Explanation | None = None
    """What its text was made of, where an expectation about an attempt raised it."""
    paths: Sequence[Attempt] = ()
    """An attempt of each path that is wrong, the worst first, where the expectation can tell them from the others."""

    def __init__(self, message: str | Explanation, seen: Sequence[Observation] = ()) -> None:
        super().__init__(str(message))
        self.explanation = None if isinstance(message, str) else message
        self.seen = tuple(seen)


class Unmet(Nonconformance):
    """A requirement that this cluster does not satisfy (claim verdict UNMET, not VIOLATED)."""


class SuiteError(Exception):
    """Base of everything that says nothing about the cluster's conformance."""

    explanation: Explanation | None = None
    """As that of :class:`Nonconformance`."""
    paths: Sequence[Attempt] = ()
    """As those of :class:`Nonconformance`: the paths that could not be decided."""

    def __init__(self, message: str | Explanation = "") -> None:
        super().__init__(str(message))
        self.explanation = None if isinstance(message, str) else message


class ProbeBroken(SuiteError):
    """An attempt could not be carried out: exec failed, status lost, binary missing, output empty, agent died.

    Keeps all that was seen up to then (``seen``) and what the transport said (``transport``).
    """

    def __init__(
        self, message: str | Explanation, seen: Sequence[Observation] = (), transport: str = ""
    ) -> None:
        super().__init__(message)
        self.seen = tuple(seen)
        self.transport = transport


class ControlBroken(SuiteError):
    """A control beside or before a denial failed, so the denial proves nothing; says which control."""

    def __init__(
        self, message: str | Explanation, control: str, seen: Sequence[Observation] = ()
    ) -> None:
        super().__init__(message)
        self.control = control
        self.seen = tuple(seen)


class MissingCapability(SuiteError):
    """The cluster lacks what a test needs (a second Windows node, projectcalico.org/v3 ...): NOT_RUN.

    ``remedy`` says how to make it run.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.remedy = remedy


class Unseen(MissingCapability):
    """Nothing on the cluster can show what a claim says, however it is run: NOT_RUN, and no gap of the run."""

    BEGINS = "cannot be seen here"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{self.BEGINS}: {message}", remedy)


class NotAboutThisCluster(MissingCapability):
    """What a test found out by itself leaves nothing here that its claim is about: NOT_APPLICABLE."""

    def __init__(self, message: str) -> None:
        SuiteError.__init__(self, message)
        self.remedy = ""


class EnvironmentBroken(SuiteError):
    """The surroundings broke while a test ran: a pod restarted or moved, an image cannot be pulled ..."""


class Wavered(EnvironmentBroken):
    """A path wavers, or a policy of others came or went beside it: the test is to be run once more at the run's end."""


class LockLost(EnvironmentBroken):
    """Another run has taken the cluster's run lock: this one may change nothing beyond its own namespaces any more."""


class UsageProblem(SuiteError):
    """Options, files or contexts that cannot be used: exit 4 before anything is touched."""


class ClusterUnusable(SuiteError):
    """Preflight: the run is impossible here.  ``reasons`` are all of them, one line each: exit 7."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type when it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def lack_of_files(error: BaseException | None) -> str:
    """What to say where this process cannot open any more files; empty: the error says something else."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            limits = f"a process may have {soft:,}, the hard limit is {hard:,}"
            return f"this machine lacks open files ({error.strerror}): {limits}; raise it: ulimit -n {hard}"
        error = error.__cause__ or error.__context__
    return ""
