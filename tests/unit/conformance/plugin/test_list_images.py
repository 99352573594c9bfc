# SPDX-License-Identifier: Apache-2.0
"""``--list-images`` lists the images that a cluster's nodes need, or that any Windows build
needs, in the form that a mirror script reads."""

from __future__ import annotations

from typing import Any

from conformance.facts.detect import node_facts
from conformance.plugin.list_images import every_build, of_nodes
from conformance.settings import Images, Mirror

CHOSEN = Images(mirrors=(Mirror(prefix="r.test"),))


def node(name: str, os: str, kernel: str) -> Any:
    info = {"operatingSystem": os, "kernelVersion": kernel, "osImage": "image"}
    return node_facts({"metadata": {"name": name}, "status": {"nodeInfo": info}})


def test_every_line_has_the_published_image_its_reference_and_for_whom() -> None:
    lines = list(every_build(CHOSEN))
    core = "windows/servercore:ltsc2022"
    assert f"mcr.microsoft.com/{core} r.test/{core}  # Windows build 20348, 25398" in lines
    assert all(line.split()[2] == "#" and line.split()[1].startswith("r.test/") for line in lines)


def test_a_cluster_needs_the_images_of_its_own_builds_alone() -> None:
    lines = list(
        of_nodes(
            [node("w", "windows", "10.0.17763.1"), node("v", "windows", "10.0.17763.2")], CHOSEN
        )
    )
    core = "windows/servercore:ltsc2019"
    assert f"mcr.microsoft.com/{core} r.test/{core}  # node w, v" in lines
    assert not any("ltsc2022" in line or "busybox" in line for line in lines)


def test_a_node_without_an_image_is_a_comment() -> None:
    (line,) = of_nodes([node("w", "windows", "10.0.14393.1")], CHOSEN)
    assert line.startswith("# node w runs Windows build 14393")
