"""Retries of requests that must succeed although the API server has short outages, within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from conformance.errors import EnvironmentBroken
from conformance.kube.reach import ApiGone
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.timing import SYSTEM_CLOCK, Clock, until

T = TypeVar("T")
PAUSE = 0.5
"""s.  Between two tries."""


class _Later(Generic[T]):
    """What came of one try: a result, or trouble that may pass."""

    def __init__(self, result: T | None = None, trouble: ApiRefused | ApiUnreachable | None = None) -> None:
        self.result, self.trouble = result, trouble


def retry(act: Callable[[], T], *, within: float, description: str, clock: Clock = SYSTEM_CLOCK) -> T:
    """The result of ``act``, which must be safe to do twice.

    Raises EnvironmentBroken when the API server did not take it for ``within`` seconds, ApiRefused at once when it
    refuses for good.
    """

    def attempt() -> _Later[T]:
        try:
            return _Later(result=act())
        except ApiGone:
            raise  # it does not come back for this run; the next one puts back
        except ApiUnreachable as trouble:
            return _Later(trouble=trouble)
        except ApiRefused as trouble:
            if trouble.code < 500 and trouble.code != 429:
                raise
            return _Later(trouble=trouble)

    settled = until(
        attempt,
        lambda one: one.trouble is None,
        within=within,
        every=PAUSE,
        description=f"{description} is done",
        clock=clock,
    )
    if not settled.converged:
        raise EnvironmentBroken(
            f"{description}: not done after {len(settled.answers)} tries in {settled.seconds:.0f} s: "
            f"{settled.last.trouble}"
        ) from settled.last.trouble
    return settled.last.result  # type: ignore[return-value]
