# SPDX-License-Identifier: Apache-2.0
"""A cluster around a test's own pods whose answers the test sets."""

from typing import Any

from conformance.expect.context import World


class StandInWorld(World):
    """A world in which some answers are given: ``StandInWorld(change=lambda: change,
    others=policies)``."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        vars(self).update(answers)
