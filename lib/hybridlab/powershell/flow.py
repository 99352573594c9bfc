# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end a script or a pipeline early."""


class Exit(Exception):
    """The statement ``exit N``."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class Enough(Exception):
    """The signal of a pipeline stage, such as ``Select-Object -First``, that it needs no more
    objects."""

    def __init__(self, stage: object) -> None:
        super().__init__()
        self.stage = stage
