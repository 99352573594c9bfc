# SPDX-License-Identifier: Apache-2.0
"""Repeats requests, within a deadline, that must succeed although the API server has short
outages."""

from collections.abc import Callable
from typing import TypeVar

from conformance.errors import EnvironmentBroken
from conformance.kube.client import Kube, Obj
from conformance.kube.reach import ApiGone
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.model.change import ObjectRef
from conformance.model.counted import counted
from conformance.timing import SYSTEM_CLOCK, Clock, until

T = TypeVar("T")
PAUSE = 0.5
"""The pause, in seconds, between two attempts."""


def retry(
    act: Callable[[], T], *, within: float, description: str, clock: Clock = SYSTEM_CLOCK
) -> T:
    """Return the result of ``act``, which must be safe to do twice.

    Raise EnvironmentBroken if the API server did not accept the request within ``within`` seconds.
    Raise ApiRefused at once if a refusal is final.
    """
    results: list[T] = []

    def attempt() -> ApiRefused | ApiUnreachable | None:
        """Make one attempt. Return its error if the error may be temporary."""
        try:
            results.append(act())
        except ApiGone:
            raise  # this run has given up the API server; the next run restores
        except (ApiUnreachable, ApiRefused) as error:
            if isinstance(error, ApiRefused) and error.code < 500 and error.code != 429:
                raise
            return error
        return None

    settled = until(
        attempt,
        lambda error: error is None,
        within=within,
        every=PAUSE,
        description=f"{description} is done",
        clock=clock,
    )
    if not settled.converged:
        raise EnvironmentBroken(
            f"{description}: not done after {counted(len(settled.answers), 'try', 'tries')} "
            f"in {settled.seconds:.0f} s: {settled.last}"
        ) from settled.last
    return results[0]


def read(kube: Kube, target: ObjectRef, *, within: float) -> Obj | None:
    """Return an object's present state; None if it does not exist. Raise the errors of
    :func:`retry`."""
    return retry(
        lambda: kube.find(target.api_version, target.kind, target.name, target.namespace),
        within=within,
        description=f"read {target.label}",
    )
