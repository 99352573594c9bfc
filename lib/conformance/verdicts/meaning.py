# SPDX-License-Identifier: Apache-2.0
"""What one thing says of a claim: an exception, the end of a path, whether something happened.

It imports nothing but exceptions and values, so that every room that sees something can ask it.
"""

from collections.abc import Collection

from conformance.errors import MissingCapability, NotAboutThisCluster, Unmet
from conformance.model.verdict import ClaimVerdict


def of_error(error: BaseException) -> ClaimVerdict:
    """What an exception says of the test or the node that it ended; an AssertionError is about the cluster."""
    if isinstance(error, NotAboutThisCluster):
        return ClaimVerdict.NOT_APPLICABLE
    if isinstance(error, MissingCapability):
        return ClaimVerdict.NOT_RUN
    if isinstance(error, Unmet):
        return ClaimVerdict.UNMET
    return ClaimVerdict.VIOLATED if isinstance(error, AssertionError) else ClaimVerdict.INCONCLUSIVE


def of_failure(error: BaseException) -> ClaimVerdict:
    """What an exception says of one path or node that was asked: whatever is not about the cluster is INCONCLUSIVE."""
    said = of_error(error)
    return (
        said if said in (ClaimVerdict.VIOLATED, ClaimVerdict.UNMET) else ClaimVerdict.INCONCLUSIVE
    )


def of_path(*, held: bool, wavered: bool, wrong: bool) -> ClaimVerdict:
    """What a path says: it ``held``, if not without wavering; it is ``wrong`` and answers for itself; or neither."""
    if held:
        return ClaimVerdict.INCONCLUSIVE if wavered else ClaimVerdict.CONFIRMED
    return ClaimVerdict.VIOLATED if wrong else ClaimVerdict.INCONCLUSIVE


def of_demand(*, met: bool, explained: bool) -> ClaimVerdict:
    """What a path says of a requirement; ``explained``: something else is known to be wrong on it."""
    if met:
        return ClaimVerdict.CONFIRMED
    return ClaimVerdict.INCONCLUSIVE if explained else ClaimVerdict.UNMET


def of_promise(kept: bool) -> ClaimVerdict:
    """What was seen of something that holds always."""
    return ClaimVerdict.CONFIRMED if kept else ClaimVerdict.VIOLATED


def of_limitation(gone: bool) -> ClaimVerdict:
    """What was seen of a limitation that is as documented, or gone."""
    return ClaimVerdict.LIFTED if gone else ClaimVerdict.CONFIRMED


def of_chance(happened: bool | None) -> ClaimVerdict:
    """What was seen of something that can happen; None: nothing shows whether it did."""
    if happened is None:
        return ClaimVerdict.NOT_RUN
    return ClaimVerdict.CONFIRMED if happened else ClaimVerdict.NOT_OBSERVED


def of_witness(verdict: ClaimVerdict, *, lost: bool) -> ClaimVerdict:
    """What a witness beside a limitation says of the limitation's claim; ``lost``: it no longer shows anything."""
    return ClaimVerdict.INCONCLUSIVE if lost else verdict


def of_cell(*, held: bool, sure: bool, again: bool, limitation: bool) -> ClaimVerdict:
    """What a cell of a world of policies says: it ``held``, or was asked once more from rest.

    ``sure``: the two answers decide something; ``again``: it held the second time; ``limitation``: it is documented
    not to be as policies promise.
    """
    if held:
        return ClaimVerdict.CONFIRMED
    if not sure or (limitation and again):
        return ClaimVerdict.INCONCLUSIVE
    return ClaimVerdict.LIFTED if limitation else ClaimVerdict.VIOLATED


def of_waived(beside: Collection[ClaimVerdict]) -> ClaimVerdict:
    """What a test says for the exit code, once what is wrong is waived; ``beside``: what else it says."""
    return (
        ClaimVerdict.INCONCLUSIVE if ClaimVerdict.INCONCLUSIVE in beside else ClaimVerdict.CONFIRMED
    )
