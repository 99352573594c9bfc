# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the cluster around a test's own pods; the test defines its answers."""

from typing import Any

from conformance.expect.context import World


class StandInWorld(World):
    """A world with some given answers: ``StandInWorld(change=lambda: change, others=policies)``."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        vars(self).update(answers)
