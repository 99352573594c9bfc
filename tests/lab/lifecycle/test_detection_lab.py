# SPDX-License-Identifier: Apache-2.0
"""A lab that a test of the detection table started ends with that test, even after kill -9."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

ROOT = Path(__file__).parents[3]
STARTS_A_LAB = """
import sys, time
from pathlib import Path
from tests.detection.runner import lab
with lab(Path(sys.argv[1]), (), "", profile="small"):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_LAB, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        try:
            assert starter.stdout.readline() == "ready\n"
            [lab] = psutil.Process(starter.pid).children()
        finally:
            starter.kill()
    again = retry_if_result(lambda runs: runs)
    Retrying(stop=stop_after_delay(30), wait=wait_fixed(0.1), retry=again)(lab.is_running)
