# SPDX-License-Identifier: Apache-2.0
"""Expectations with scripted answers, for tests of their decisions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.expect.context import Sink
from conformance.expect.traffic import Expect
from tests.unit.conformance.builders import an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import Answer, ScriptedProber

Make = Callable[..., Expect]


@pytest.fixture
def attached() -> dict[str, str]:
    return {}


@pytest.fixture
def expect(attached: dict[str, str]) -> Make:
    def made(**answers: list[Answer]) -> Expect:
        prober = ScriptedProber(answers)
        return an_expect(
            prober,
            "POL-1",
            sink=Sink(attached=attached),
            world=StandInWorld(policies=lambda: ["ns/allow-friend (31 s)"]),
        )

    return made
