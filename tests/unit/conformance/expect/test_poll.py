# SPDX-License-Identifier: Apache-2.0
"""How soon rounds of attempts follow each other."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from conformance.expect.poll import poll
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.network import Network
from tests.unit.conformance.expect.stand_ins import target

FIELD = load_timings()


@pytest.mark.parametrize(
    ("of_open_paths", "every"), [(True, FIELD.windows.open_every), (False, 1.0)]
)
def test_only_rounds_of_open_paths_follow_each_other_as_fast_from_windows_as_from_linux(
    *, of_open_paths: bool, every: float
) -> None:
    network, client = Network(FIELD), a_workload("client", "windows")
    attempt = Attempt(source=client, target=target("192.168.0.9"), kind=Kind.TCP, give_up_after=5.0)

    def right(observations: Sequence[Observation]) -> bool:
        return bool(observations)

    polled = poll(
        an_expect(network), [attempt], right, because="it answers", of_open_paths=of_open_paths
    )
    assert polled.converged
    begun = [moment for moment, _ in network.begun]
    gaps = [later - sooner for sooner, later in pairwise(begun)]
    assert gaps == pytest.approx([every] * 2, abs=0.02)
