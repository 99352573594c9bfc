"""How a script leaves what it is in: ``exit``, ``break``, ``continue``, ``return``, and a pipeline that has enough."""


class Flow(Exception):
    """Any of them; none is an error that ``catch`` takes."""


class Exit(Flow):
    """``exit N``."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class Break(Flow):
    """``break``: ends the loop around it, or without one the script."""


class Continue(Flow):
    """``continue``."""


class Return(Flow):
    """``return``: its value was put out before."""


class Enough(Flow):
    """A stage of a pipeline, ``Select-Object -First``, wants no more objects."""

    def __init__(self, stage: object) -> None:
        super().__init__()
        self.stage = stage
