# SPDX-License-Identifier: Apache-2.0
"""``--restore`` and ``--janitor`` refuse options that contradict them, and touch nothing."""

from __future__ import annotations

import pytest

from conformance.errors import UsageProblem
from conformance.plugin import recover
from tests.unit.conformance.plugin.test_options import config

CLUSTER = "--kubeconfig=here"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--restore"],
            "--restore is for a cluster that stays: name it by --kubeconfig=PATH",
        ),
        (
            ["--janitor", "--dry-run"],
            "--janitor is for a cluster that stays: name it by --kubeconfig=PATH",
        ),
        (
            [CLUSTER, "--restore", "--plan", "--dry-run"],
            "--restore --plan contradict each other: pytest --janitor --dry-run says what there is",
        ),
        (
            [CLUSTER, "--restore", "--dry-run"],
            "--restore --dry-run: ask  pytest --janitor --dry-run  what there is to restore",
        ),
        ([CLUSTER, "--janitor", "--dry-run"], "the cluster is opened"),
        ([CLUSTER, "--restore", "--max-minutes=0"], "--max-minutes 0: expected more than 0"),
    ],
)
def test_what_contradicts_putting_back_is_a_usage_error(
    arguments: list[str], expected: str
) -> None:
    def door(choice: object) -> None:
        raise UsageProblem("the cluster is opened")

    with pytest.raises(pytest.UsageError) as caught:
        recover.command(config(*arguments), door)  # type: ignore[arg-type]
    assert str(caught.value) == expected
