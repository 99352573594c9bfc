# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance images --lock`` writes a file that ``--images`` reads, or one line with
the reason why not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.pods import image_lock
from conformance.pods.images import HOST_PROCESS, published, reference
from conformance.run.image_choices import image_choices
from conformance.settings import Images

MANIFEST = '{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST.encode()).hexdigest()}"


@pytest.fixture
def crane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of crane; what it was asked is in ``asked``."""
    program = tmp_path / "bin" / "crane"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(image_lock, "WITHIN", 2.0)
    says(program, f"printf '%s' '{MANIFEST}'")
    return program


def says(program: Path, script: str) -> None:
    program.write_text(f'#!/bin/sh\necho "$@" >>{program.parent}/asked\n{script}\n')
    program.chmod(0o755)


def test_the_lock_is_an_images_file_with_every_digest_but_server_core_s(
    crane: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["images", "--lock"]) == 0
    lock = tmp_path / "images.yaml"
    lock.write_text(capsys.readouterr().out)
    choices = image_choices(lock)
    pinned = {image for image in sum(published().values(), ()) if "servercore" not in image}
    assert len(pinned) == 5
    assert {image: choice.digest for image, choice in choices.items()} == dict.fromkeys(
        pinned, DIGEST
    )
    asked = (crane.parent / "asked").read_text().splitlines()
    assert asked == [f"manifest {image}" for image in choices]
    assert any(HOST_PROCESS in image for image in asked)
    chosen = Images(mirrors=(), choices=choices, pull_secrets=())
    assert reference(next(iter(pinned)), chosen).endswith(f"@{DIGEST}")
    for image in published()["windows"]:
        if image not in pinned:
            assert f"# {image} {image_lock.BY_TAG}\n" in lock.read_text()


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo 'Error: UNAUTHORIZED: log in' >&2; exit 1", 7, ": Error: UNAUTHORIZED: log in\n"),
        ("exit 1", 7, ": crane failed\n"),
        ("echo '<p>Log in</p>'", 7, " sent no manifest; its answer begins '<p>Log in</p>'\n"),
        ("echo '[]'", 7, " sent no manifest; its answer begins '[]'\n"),
        ("exit 0", 7, " sent no manifest; its answer begins ''\n"),
        ("exec sleep 30", 7, " did not end within 2 s\n"),
        (None, 4, "which reads digests from registries, is not in PATH; install: go install "),
    ],
)  # fmt: skip
def test_what_gives_no_digest_is_one_line_and_nothing_is_written(
    crane: Path,
    capsys: pytest.CaptureFixture[str],
    script: str | None,
    code: int,
    words: str,
) -> None:
    says(crane, script) if script else crane.unlink()
    assert main(["images", "--lock"]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("ERROR: images --lock: ")
    assert words in told.err
    assert len(told.err.splitlines()) == 1


def test_without_the_option_images_are_printed_as_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["images"]) == 0
    assert capsys.readouterr().out.split() == [*published()["linux"], *published()["windows"]]
