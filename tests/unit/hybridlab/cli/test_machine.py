# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is said before anything is installed."""

from __future__ import annotations

import resource
import subprocess
import sys

from hybridlab.cli.machine import DEFAULT_NODES
from hybridlab.profiles.load import load


def test_too_low_a_hard_limit_of_open_files_is_one_line_with_both_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hybridlab.cli.machine"], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )  # fmt: skip
    assert done.returncode == 7
    told = [line for line in done.stderr.splitlines() if "files" in line]
    assert len(told) == 1
    assert told[0].startswith(
        "this machine cannot run a lab: too few open files: "
        "a process of a lab with 6 nodes needs up to "
    )
    assert "the hard limit is 256; " in told[0]


def test_the_default_lab_has_as_many_nodes_as_it_takes_it_to_have() -> None:
    assert sum(group.count for group in load("default").nodes) == DEFAULT_NODES
