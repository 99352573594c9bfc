# SPDX-License-Identifier: Apache-2.0
"""A Windows node's KB number is the one that an object or a value on the node names, and unknown
if none does."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.facts.detect import detect

KERNEL = "10.0.20348.2762"


@pytest.mark.parametrize(
    ("said", "number", "where"),
    [
        ({"labels": {"example.com/update": "KB5044281"}}, "KB5044281", "label example.com/update of the node"),
        ({"annotations": {"last-update": "2024-10 (kb5044281)"}}, "KB5044281", "annotation last-update of the node"),
        ({"annotations": {"fixes": "KB5044281 KB5043881"}}, "KB5044281, KB5043881", "annotation fixes of the node"),
    ],
)  # fmt: skip
def test_a_kb_number_is_told_with_the_place_that_names_it(
    kube: Any, world: Any, said: dict[str, Any], number: str, where: str
) -> None:
    world.node("win", "windows", KERNEL, **said)
    update = detect(kube).nodes[0].update
    assert (update.value, update.source) == (number, where)


@pytest.mark.parametrize("value", ["20348.2762.241009", "DKB5044281", "KB12", "KB5044281x"])
def test_what_is_no_kb_number_is_not_taken_for_one(kube: Any, world: Any, value: str) -> None:
    world.node("win", "windows", KERNEL, labels={"node-image-version": value})
    assert not detect(kube).nodes[0].update.known


def test_where_nothing_names_it_the_revision_is_told_and_no_number_is_made_up(
    kube: Any, world: Any
) -> None:
    world.node("win", "windows", KERNEL)
    node = detect(kube).nodes[0]
    assert node.revision == "20348.2762"
    assert node.update.value is None
    assert f"Kubernetes reports only build and revision ({KERNEL})" in node.update.source


def test_a_linux_node_has_no_windows_update(kube: Any, world: Any) -> None:
    world.node("lin", labels={"note": "KB5044281"})
    node = detect(kube).nodes[0]
    assert (node.update.value, node.revision) == (None, "")
