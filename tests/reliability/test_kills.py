# SPDX-License-Identifier: Apache-2.0
"""A run that is killed while the cluster is changed leaves nothing that ``pytest --restore`` does
not restore.

A sample of what ``tox -e reliability`` does at 50 points with the real suites.
"""

from __future__ import annotations

import pytest

from tests.reliability import hit_run, kills, snapshot

pytestmark = pytest.mark.whole_run

LASTING = 4.0
"""Seconds that the sample's suite has the cluster changed."""
UNREACHABLE = 4.0
"""Seconds without the API server, in place of the 20 of the whole measurement."""
POINTS = kills.points(10, LASTING)


@pytest.mark.parametrize(
    "half",
    [
        pytest.param(0, marks=pytest.mark.xdist_group("kills-0")),
        pytest.param(1, marks=pytest.mark.xdist_group("kills-1")),
    ],
)
def test_everything_is_put_back_at_each_point(half: int) -> None:
    with hit_run.harness("small", (), unreachable=UNREACHABLE) as harness:
        before = snapshot.take(harness.kube)
        done = []
        for point in POINTS[half::2]:
            done.append(kills.one_point(harness, point, before))
            assert (done[-1].left, done[-1].exit_code) == ((), 0), done[-1]
        assert any(kill.restored for kill in done), (
            "no run was hit while it had the cluster changed"
        )
