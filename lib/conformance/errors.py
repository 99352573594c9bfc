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

from conformance.printing import block

if TYPE_CHECKING:
    from conformance.model.attempt import Attempt
    from conformance.model.explanation import Explanation
    from conformance.model.observation import Observation


class Nonconformance(AssertionError):
    """The cluster contradicts the claim. ``seen`` holds the observations that show this."""

    explanation: Explanation | None = None
    """The explanation from which the text was made, if an expectation about an attempt raised the
    error."""
    paths: Sequence[Attempt] = ()
    """An attempt of each wrong path, the worst path first, if the expectation can distinguish wrong
    paths."""
    cause: str = ""
    """The cause if the explanation has none, in words that other failures may share."""

    def __init__(
        self, message: str | Explanation, observations: Sequence[Observation] = ()
    ) -> None:
        super().__init__(block(str(message)))
        self.explanation = None if isinstance(message, str) else message
        self.observations = tuple(observations)


class Unmet(Nonconformance):
    """A requirement that this cluster does not satisfy (claim verdict UNMET, not VIOLATED)."""


class SuiteError(Exception):
    """The base of all errors that say nothing about the cluster's conformance."""

    explanation: Explanation | None = None
    """The explanation, as in :class:`Nonconformance`."""
    paths: Sequence[Attempt] = ()
    """The paths that could not be decided, as in :class:`Nonconformance`."""
    cause: str = ""
    """The cause in words that other failures may share, without names of pods; empty if the cause
    is not known."""

    def __init__(self, message: str | Explanation = "") -> None:
        super().__init__(block(str(message)))
        self.explanation = None if isinstance(message, str) else message


class ProbeBroken(SuiteError):
    """An attempt could not be carried out: exec failed, status lost, binary missing, output empty,
    agent died.

    The error keeps all earlier observations (``seen``) and the transport's message (``transport``).
    """

    def __init__(
        self,
        message: str | Explanation,
        observations: Sequence[Observation] = (),
        transport: str = "",
    ) -> None:
        super().__init__(message)
        self.observations = tuple(observations)
        self.transport = transport


class ControlBroken(SuiteError):
    """A control before a denial, or at the time of the denial, failed. The denial therefore proves
    nothing. The message names the control."""

    def __init__(
        self, message: str | Explanation, control: str, observations: Sequence[Observation] = ()
    ) -> None:
        super().__init__(message)
        self.control = control
        self.observations = tuple(observations)


class MissingCapability(SuiteError):
    """The cluster lacks what a test needs (a second Windows node, projectcalico.org/v3 ...): NOT_RUN.

    ``remedy`` says how to make it run.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}; {remedy}")
        self.remedy = remedy


class NotObservable(MissingCapability):
    """The cluster cannot show the claim, however the test is run: NOT_RUN, but it does not count as
    a gap of the run."""

    BEGINS = "cannot be seen here"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{self.BEGINS}: {message}", remedy)


class NotAboutThisCluster(MissingCapability):
    """The test's own readings show that the cluster has nothing that the claim is about:
    NOT_APPLICABLE."""

    def __init__(self, message: str) -> None:
        SuiteError.__init__(self, message)
        self.remedy = ""


class EnvironmentBroken(SuiteError):
    """The surroundings broke while a test ran: a pod restarted or moved, an image cannot be pulled
    ..."""


class Wavered(EnvironmentBroken):
    """A path lost some connections, or a foreign policy changed during the test. The run repeats
    the test once at its end."""


class LockLost(EnvironmentBroken):
    """Another run has taken the cluster's run lock: from now on, this run may change only its own
    namespaces."""


class UsageProblem(SuiteError):
    """Options, files or contexts cannot be used: exit 4 before anything is touched."""


class ClusterUnusable(SuiteError):
    """Preflight found that the run is impossible here. ``reasons`` has every reason, one line each:
    exit 7."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type when it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def reason_of(error: BaseException) -> str:
    """Return the reason that a report prints. The error's type comes first only if the error is a
    defect of the suite."""
    if isinstance(error, SuiteError | AssertionError):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)}"


def lack_of_files(error: BaseException | None) -> str:
    """Return the message that this process cannot open more files, or an empty string if the error
    has another cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            limits = f"a process may have {soft:,}, the hard limit is {hard:,}"
            return (
                f"this machine allows too few open files ({error.strerror}): {limits}; raise: "
                f"ulimit -n {hard}"
            )
        error = error.__cause__ or error.__context__
    return ""
