# SPDX-License-Identifier: Apache-2.0
"""A verdict is reported with the line of the test, a defect of the suite with all its stack
frames."""

import pytest

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect import traffic
from conformance.plugin.judge import hide_how_it_was_decided


@pytest.mark.parametrize(
    ("error", "hidden"),
    [(Nonconformance("x"), True), (ControlBroken("x", control="y"), True), (KeyError("x"), False)],
)
def test_frames_of_expectations_are_hidden_below_verdicts_alone(
    error: Exception, hidden: bool
) -> None:
    hide_how_it_was_decided()
    with pytest.raises(type(error)) as raised:
        raise error
    assert vars(traffic)["__tracebackhide__"](raised) is hidden
