# SPDX-License-Identifier: Apache-2.0
"""The meaning of one exception, or of one path's result, for a claim."""

import pytest

from conformance.errors import (
    EnvironmentBroken,
    MissingCapability,
    Nonconformance,
    NotAboutThisCluster,
    NotObservable,
    Unmet,
)
from conformance.model.claim import ClaimVerdict
from conformance.verdicts.meaning import of_cell, of_error, of_failure, of_path

V = ClaimVerdict


@pytest.mark.parametrize(
    ("error", "of_a_test", "of_a_path"),
    [
        (Nonconformance("x"), V.VIOLATED, V.VIOLATED),
        (Unmet("x"), V.UNMET, V.UNMET),
        (MissingCapability("x", "y"), V.NOT_RUN, V.INCONCLUSIVE),
        (NotObservable("x", "y"), V.NOT_RUN, V.INCONCLUSIVE),
        (NotAboutThisCluster("x"), V.NOT_APPLICABLE, V.INCONCLUSIVE),
        (EnvironmentBroken("x"), V.INCONCLUSIVE, V.INCONCLUSIVE),
        (ValueError("x"), V.INCONCLUSIVE, V.INCONCLUSIVE),
    ],
)
def test_an_exception_is_about_the_cluster_only_as_an_assertion(
    error: Exception, of_a_test: ClaimVerdict, of_a_path: ClaimVerdict
) -> None:
    assert (of_error(error), of_failure(error)) == (of_a_test, of_a_path)


@pytest.mark.parametrize(
    ("held", "wavered", "wrong", "verdict"),
    [
        (True, False, False, V.CONFIRMED),
        (True, True, False, V.INCONCLUSIVE),
        (False, False, True, V.VIOLATED),
        (False, True, False, V.INCONCLUSIVE),
    ],
)
def test_a_path_that_wavers_confirms_nothing(
    held: bool, wavered: bool, wrong: bool, verdict: ClaimVerdict
) -> None:
    assert of_path(held=held, wavered=wavered, wrong=wrong) is verdict


@pytest.mark.parametrize(
    ("held", "sure", "again", "limitation", "verdict"),
    [
        (True, False, False, True, V.CONFIRMED),
        (False, False, False, False, V.INCONCLUSIVE),
        (False, False, True, True, V.INCONCLUSIVE),
        (False, True, True, True, V.INCONCLUSIVE),
        (False, True, False, True, V.LIFTED),
        (False, True, True, False, V.VIOLATED),
        (False, True, False, False, V.VIOLATED),
    ],
)
def test_a_cell_that_is_otherwise_is_judged_by_its_second_answer(
    held: bool, sure: bool, again: bool, limitation: bool, verdict: ClaimVerdict
) -> None:
    assert of_cell(held=held, sure=sure, again=again, limitation=limitation) is verdict
