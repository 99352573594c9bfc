# SPDX-License-Identifier: Apache-2.0
"""The verdict of a single observation: an exception, the result of a path, or an event that did or
did not happen.

It imports only exceptions and values, so every package with an observation can use it.
"""

from collections.abc import Collection

from conformance.errors import MissingCapability, NotAboutThisCluster, Unmet
from conformance.model.verdict import ClaimVerdict


def of_error(error: BaseException) -> ClaimVerdict:
    """Return the verdict of an exception for its test or node; an AssertionError is about the
    cluster."""
    if isinstance(error, NotAboutThisCluster):
        return ClaimVerdict.NOT_APPLICABLE
    if isinstance(error, MissingCapability):
        return ClaimVerdict.NOT_RUN
    if isinstance(error, Unmet):
        return ClaimVerdict.UNMET
    return ClaimVerdict.VIOLATED if isinstance(error, AssertionError) else ClaimVerdict.INCONCLUSIVE


def of_failure(error: BaseException) -> ClaimVerdict:
    """Return the verdict of an exception for a path or node; INCONCLUSIVE if the exception is not
    about the cluster."""
    verdict = of_error(error)
    return (
        verdict
        if verdict in (ClaimVerdict.VIOLATED, ClaimVerdict.UNMET)
        else ClaimVerdict.INCONCLUSIVE
    )


def of_path(*, held: bool, wavered: bool, wrong: bool) -> ClaimVerdict:
    """Return the verdict of a path that ``held`` (although it may have ``wavered``), that is
    ``wrong``, or of which neither is certain."""
    if held:
        return ClaimVerdict.INCONCLUSIVE if wavered else ClaimVerdict.CONFIRMED
    return ClaimVerdict.VIOLATED if wrong else ClaimVerdict.INCONCLUSIVE


def of_demand(*, met: bool, explained: bool) -> ClaimVerdict:
    """Return the verdict of a path for a requirement; ``explained``: another fault explains that
    the requirement is not ``met``."""
    if met:
        return ClaimVerdict.CONFIRMED
    return ClaimVerdict.INCONCLUSIVE if explained else ClaimVerdict.UNMET


def of_promise(kept: bool) -> ClaimVerdict:
    """Return the verdict of something that should always hold."""
    return ClaimVerdict.CONFIRMED if kept else ClaimVerdict.VIOLATED


def of_limitation(gone: bool) -> ClaimVerdict:
    """Return the verdict of a limitation that is as documented, or gone."""
    return ClaimVerdict.LIFTED if gone else ClaimVerdict.CONFIRMED


def of_absence(*, expected: bool) -> ClaimVerdict:
    """Return the verdict of a path without a limitation; ``expected``: its node is known to have
    the limitation."""
    return ClaimVerdict.LIFTED if expected else ClaimVerdict.NOT_RUN


def of_chance(happened: bool | None) -> ClaimVerdict:
    """Return the verdict of an event that can happen; ``happened`` is None if nothing shows whether
    it did."""
    if happened is None:
        return ClaimVerdict.NOT_RUN
    return ClaimVerdict.CONFIRMED if happened else ClaimVerdict.NOT_OBSERVED


def of_witness(verdict: ClaimVerdict, *, lost: bool) -> ClaimVerdict:
    """Return the verdict of a limitation, or INCONCLUSIVE if its witness is ``lost`` and no longer
    shows anything."""
    return ClaimVerdict.INCONCLUSIVE if lost else verdict


def of_cell(*, held: bool, sure: bool, again: bool, limitation: bool) -> ClaimVerdict:
    """Return the verdict of a pair of seats in a world (a set of policies). A pair that is not
    ``held`` was checked once more in a new run of the world.

    ``sure``: the first and the second answer together decide something; ``again``: the pair held
    the second time; ``limitation``: documents say that a pair differs from the policies' promise.
    """
    if held:
        return ClaimVerdict.CONFIRMED
    if not sure or (limitation and again):
        return ClaimVerdict.INCONCLUSIVE
    return ClaimVerdict.LIFTED if limitation else ClaimVerdict.VIOLATED


def of_waived(beside: Collection[ClaimVerdict]) -> ClaimVerdict:
    """Return a test's verdict for the exit code once a violation is waived; ``beside``: the test's
    other verdicts."""
    return (
        ClaimVerdict.INCONCLUSIVE if ClaimVerdict.INCONCLUSIVE in beside else ClaimVerdict.CONFIRMED
    )
