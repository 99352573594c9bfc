# SPDX-License-Identifier: Apache-2.0
"""How a script leaves what it is in: ``exit``, and a pipeline that has enough."""


class Exit(Exception):
    """``exit N``."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class Enough(Exception):
    """A stage of a pipeline, ``Select-Object -First``, wants no more objects."""

    def __init__(self, stage: object) -> None:
        super().__init__()
        self.stage = stage
