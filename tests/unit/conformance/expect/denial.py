# SPDX-License-Identifier: Apache-2.0
"""A denial without a change of policy, for tests of the rules about denials."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.expect.engine.pairs import each
from conformance.expect.path_decisions import Ask
from conformance.expect.traffic import Expect
from conformance.model.attempt import Kind
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.observation import Observation


def blocked(
    expect: Expect,
    sources: Workload | Sequence[Workload],
    target: Target,
    *,
    because: str,
    beside: Pair | Workload | list[Pair | Workload],
    kind: Kind | None = None,
) -> list[Observation]:
    """Expect that every source's packets to the target vanish while ``beside`` passes.

    ``beside`` are pairs, or other sources to the same target. If one of them fails, raise
    ControlBroken.
    """
    named = beside if isinstance(beside, list) else [beside]
    controls = [
        (workload, target) if isinstance(workload, Workload) else workload for workload in named
    ]
    ask = Ask(because=because, kind=kind, open_is_control=True)
    return expect._decide(controls, each([(sources, target)]), ask)[-1]
