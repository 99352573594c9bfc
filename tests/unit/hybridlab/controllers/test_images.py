# SPDX-License-Identifier: Apache-2.0
"""Which Windows builds run which images, and what containerd says when none does."""

from __future__ import annotations

import pytest

from hybridlab.controllers.images import PullError, build_runs_on, canonical, check_pull, image_id
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import Machine, machines
from hybridlab.runtime.model import ImageFacts

MACHINES = {machine.name: machine for machine in machines(load("default"))}
LTSC2022 = ImageFacts(
    reference="mcr.example/windows/servercore:ltsc2022", os=("windows",), windows_builds=(20348,)
)


@pytest.mark.parametrize(
    ("build", "host", "runs"),
    [
        (17763, 17763, True),
        (17763, 20348, False),
        (20348, 17763, False),
        (19042, 19041, False),
        (20348, 20348, True),
        (20348, 25398, True),
        (25398, 20348, False),
        (20348, 26100, True),
        (17763, 26100, False),
        (20348, 27000, False),
        (0, 17763, True),
    ],
)
def test_process_isolation_needs_the_build_that_hcsshim_demands(
    build: int, host: int, runs: bool
) -> None:
    assert build_runs_on(build, host) is runs


def refused(image: ImageFacts, machine: Machine, *, host_process: bool = False) -> str:
    with pytest.raises(PullError) as caught:
        check_pull(image, machine, host_process=host_process)
    return str(caught.value)


def test_a_wrong_build_has_no_match_for_platform() -> None:
    message = refused(LTSC2022, MACHINES["windows-2019"])
    assert message.startswith("rpc error: code = NotFound desc = failed to pull and unpack image")
    assert message.endswith("no match for platform in manifest: not found")
    check_pull(LTSC2022, MACHINES["windows-2022"], host_process=False)


def test_host_process_containers_start_from_any_build() -> None:
    check_pull(LTSC2022, MACHINES["windows-2019"], host_process=True)


def test_a_windows_image_is_not_for_linux() -> None:
    assert "no match for platform" in refused(LTSC2022, MACHINES["linux-1"], host_process=True)


def test_an_unknown_image_is_worded_as_containerd_words_it() -> None:
    image = ImageFacts(reference="nosuch:1", os=(), known=False)
    assert refused(image, MACHINES["linux-1"]) == (
        'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nosuch:1": '
        'failed to resolve reference "docker.io/library/nosuch:1": docker.io/library/nosuch:1: not found'
    )


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("calico/porter:1809", "docker.io/calico/porter:1809"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("a.b/c@sha256:12", "a.b/c@sha256:12"),
    ],
)
def test_references_are_completed_as_docker_does(reference: str, full: str) -> None:
    assert canonical(reference) == full


def test_equal_references_have_equal_ids_and_others_do_not() -> None:
    assert image_id("busybox") == image_id("docker.io/library/busybox:latest")
    assert image_id("busybox") != image_id("busybox:1")
