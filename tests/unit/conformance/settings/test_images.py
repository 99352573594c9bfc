# SPDX-License-Identifier: Apache-2.0
"""Image options and the images file are read, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageProblem
from conformance.settings import ImageChoice, Mirror, PodLimits, load_choices

KNOWN = ("docker.io/library/busybox:1.37.0", "mcr.microsoft.com/windows/servercore:ltsc2025")
DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        ("registry.example", Mirror(prefix="registry.example")),
        ("registry.example:5000/a/b/", Mirror(prefix="registry.example:5000/a/b")),
        (
            "docker.io=registry.example/hub",
            Mirror(upstream="docker.io", prefix="registry.example/hub"),
        ),
        ("r.example:5000/x=s.example", Mirror(upstream="r.example:5000/x", prefix="s.example")),
    ],
)
def test_a_registry_stands_in_for_all_or_for_one(text: str, mirror: Mirror) -> None:
    assert Mirror.parse(text) == mirror


@pytest.mark.parametrize("text", ["", "=x", "x=", "a b", "https://registry.example", "a=b=c"])
def test_what_is_no_registry_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="--image-registry"):
        Mirror.parse(text)


def test_limits_are_read() -> None:
    assert PodLimits.parse("cpu=1500m,memory=512Mi") == PodLimits(cpu="1500m", memory="512Mi")


@pytest.mark.parametrize(
    "text", ["cpu=1", "cpu=1,memory=1", "cpu=x,memory=1Gi", "cpu=1,memory=1Gi,disk=1", ""]
)
def test_wrong_limits_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="--pod-limits"):
        PodLimits.parse(text)


def test_an_images_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(
        f"{KNOWN[0]}: {{name: registry.example/base/busybox, tag: '1.37.0', digest: '{DIGEST}', pull_secret: mine}}\n"
        f"{KNOWN[1]}: {{tag: ltsc2022}}\n"
    )
    assert load_choices(path, KNOWN) == {
        KNOWN[0]: ImageChoice(
            name="registry.example/base/busybox", tag="1.37.0", digest=DIGEST, pull_secret="mine"
        ),
        KNOWN[1]: ImageChoice(tag="ltsc2022"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "docker.io/library/busybox:1.37: {tag: x}",
            "the suite has no such image; did you mean docker.io/library/busybox:1.37.0",
        ),
        (f"{KNOWN[0]}: {{version: x}}", "expected one or more of name, tag, digest, pull_secret"),
        (f"{KNOWN[0]}: {{}}", "expected one or more of"),
        (f"{KNOWN[0]}: {{digest: 'sha256:1'}}", "digest sha256:1 is not a valid digest"),
        (f"{KNOWN[0]}: {{name: busybox}}", "name busybox is not a valid name"),
        (f"{KNOWN[0]}: x", "expected one or more of"),
        ("[]", "expected a mapping from the suite's images"),
        ("{", "expected the node content"),
    ],
)
def test_a_wrong_images_file_is_refused_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(text)
    with pytest.raises(UsageProblem) as refusal:
        load_choices(path, KNOWN)
    assert str(path) in str(refusal.value)
    assert message in str(refusal.value)


def test_a_missing_images_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        load_choices(tmp_path / "none.yaml", KNOWN)
