# SPDX-License-Identifier: Apache-2.0
"""Every pod gets an image for its node's build and a node that takes it; a cluster that is too small says so."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.pods import images
from conformance.pods.images import mirrored, windows_image
from conformance.pods.placement import Placement, tolerations
from conformance.settings import ImageChoice, Images, Mirror, Toleration
from tests.unit.conformance.builders import a_node, a_windows_node, some_facts

SERVERCORE = "mcr.microsoft.com/windows/servercore:ltsc2022"


@pytest.mark.parametrize(
    ("build", "tag"),
    [
        (17763, "ltsc2019"),
        (20348, "ltsc2022"),
        (25398, "ltsc2022"),
        (26100, "ltsc2025"),
        (19042, "20H2"),
    ],
)
def test_the_image_fits_the_build(build: int, tag: str) -> None:
    assert windows_image(SERVERCORE, a_windows_node("w", build)).endswith(f"servercore:{tag}")


def test_the_label_decides_when_the_kernel_version_says_no_revision() -> None:
    assert windows_image(SERVERCORE, a_windows_node("w", 17763, windows_build=None)).endswith(
        ":ltsc2019"
    )


def test_a_build_without_an_image_is_named() -> None:
    with pytest.raises(MissingCapability, match="node w runs Windows build 14393"):
        windows_image(SERVERCORE, a_windows_node("w", 14393))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("docker.io/library/busybox:1.37", "r.test:5000/x/library/busybox:1.37"),
        (
            "mcr.microsoft.com/windows/servercore:ltsc2022",
            "r.test:5000/x/windows/servercore:ltsc2022",
        ),
        ("localhost/a:1", "r.test:5000/x/a:1"),
        ("library/busybox", "r.test:5000/x/library/busybox"),
        ("busybox:1", "r.test:5000/x/busybox:1"),
    ],
)
def test_another_registry_replaces_the_one_in_the_reference(image: str, expected: str) -> None:
    assert mirrored(image, [Mirror.parse("r.test:5000/x/")]) == expected
    assert mirrored(image, []) == image


def test_an_upstreams_own_mirror_comes_before_the_one_for_all() -> None:
    given = (
        "r.test/all",
        "mcr.microsoft.com=r.test/mcr",
        "mcr.microsoft.com/windows=r.test/windows",
    )
    mirrors = [Mirror.parse(text) for text in given]
    assert mirrored(SERVERCORE, mirrors) == "r.test/windows/servercore:ltsc2022"
    assert mirrored("mcr.microsoft.com/oss/x:1", mirrors) == "r.test/mcr/oss/x:1"
    assert mirrored("docker.io/library/busybox:1", mirrors) == "r.test/all/library/busybox:1"
    assert mirrored("mcr.microsoft.com.example/x:1", mirrors[1:]) == "mcr.microsoft.com.example/x:1"


DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ImageChoice(), "r.test/windows/servercore:ltsc2022"),
        (ImageChoice(tag="x"), "r.test/windows/servercore:x"),
        (ImageChoice(digest=DIGEST), f"r.test/windows/servercore:ltsc2022@{DIGEST}"),
        (ImageChoice(name="other.test:5000/core"), "other.test:5000/core:ltsc2022"),
        (
            ImageChoice(name="other.test/core", tag="x", digest=DIGEST),
            f"other.test/core:x@{DIGEST}",
        ),
    ],
)
def test_the_images_file_comes_before_mirrors_part_by_part(
    choice: ImageChoice, expected: str
) -> None:
    chosen = Images(mirrors=(Mirror.parse("r.test"),), choices={SERVERCORE: choice})
    assert images.reference(SERVERCORE, chosen) == expected


def test_an_image_with_a_digest_is_on_a_node_that_has_that_digest_under_any_tag() -> None:
    present = {f"r.test/core@{DIGEST}", "r.test/core:1"}
    assert images.is_on(f"r.test/core:2@{DIGEST}", present)
    assert not images.is_on(f"r.test/core:1@sha256:{'1' * 64}", present)
    assert images.is_on("r.test/core:1", present)


def test_every_image_that_is_published_has_a_tag_that_names_a_version() -> None:
    for image in (item for system in images.published().values() for item in system):
        tag = images.split(image)[1]
        assert tag in images.WINDOWS_TAGS.values() or tag.count(".") >= 2, image


def test_windows_images_are_listed_for_every_build_that_has_one() -> None:
    tags = {
        images.split(image)[1] for image in images.published()["windows"] if "servercore" in image
    }
    assert tags == set(images.WINDOWS_TAGS.values())


def test_a_node_needs_only_the_images_of_its_own_build() -> None:
    needed = images.for_node(a_windows_node("w", 17763))
    assert [item for item in needed if "servercore" in item] == [
        "mcr.microsoft.com/windows/servercore:ltsc2019"
    ]
    assert any(images.HOST_PROCESS in item for item in needed)
    assert not set(needed) & set(images.for_node(a_node("l")))


def test_workers_come_before_control_planes_and_each_worker_starts_at_another_node() -> None:
    facts = some_facts(a_node("cp", control_plane=True), a_node("a"), a_node("b"), a_node("c"))
    assert [node.name for node in Placement(facts).usable("linux")] == ["a", "b", "c", "cp"]
    assert [node.name for node in Placement(facts, turn=4).usable("linux")] == ["b", "c", "a", "cp"]


def test_a_system_without_a_node_that_takes_pods_lacks_one() -> None:
    placement = Placement(some_facts(a_node("l")))
    assert placement.first("linux").name == "l"
    with pytest.raises(
        MissingCapability,
        match=r"needs a usable Windows node, but there is none; add a Windows node",
    ):
        placement.covered("windows")


def test_the_system_pool_of_a_small_aks_cluster_takes_pods() -> None:
    taint = {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}
    assert Placement(some_facts(a_node("system", taints=(taint,)))).first("linux").name == "system"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ready": False}, "not ready"),
        ({"schedulable": False}, "cordoned"),
        (
            {"taints": ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)},
            "taint gpu=yes:NoSchedule is not tolerated; to tolerate it, use --tolerate gpu",
        ),
        (
            {"taints": ({"key": "os", "value": "linux", "effect": "NoSchedule"},)},
            "taint os=linux:NoSchedule",
        ),
        (
            {"taints": ({"key": "os", "value": "windows", "effect": "NoExecute"},)},
            "taint os=windows:NoExecute",
        ),
    ],
)
def test_a_node_that_takes_no_pods_is_named_with_the_reason(
    change: dict[str, Any], why: str
) -> None:
    placement = Placement(some_facts(a_windows_node("w", 20348, **change)))
    with pytest.raises(MissingCapability) as caught:
        placement.first("windows")
    assert f"(w: {why}" in str(caught.value)


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "os", "value": "Windows", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule"},
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        {"key": "node-role.kubernetes.io/etcd", "value": "true", "effect": "NoExecute"},
        {"key": "node-role.kubernetes.io/controlplane", "value": "true", "effect": "NoSchedule"},
        {"key": "anything", "effect": "PreferNoSchedule"},
    ],
)
def test_the_usual_taints_are_tolerated(taint: dict[str, str]) -> None:
    assert Placement(some_facts(a_windows_node("w", 20348, taints=(taint,)))).first("windows")


def test_a_named_taint_is_tolerated_in_placement_and_in_the_pods_spec() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    extra = [Toleration.parse("gpu=yes:NoSchedule")]
    assert Placement(some_facts(a_node("l", taints=(taint,))), extra).first("linux")
    assert {
        "key": "gpu",
        "operator": "Equal",
        "value": "yes",
        "effect": "NoSchedule",
    } in tolerations(extra)
    assert {"key": "gpu", "operator": "Exists"} in tolerations([Toleration.parse("gpu")])
