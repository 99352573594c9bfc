# SPDX-License-Identifier: Apache-2.0
"""The policies that tests write agree with the policies that they say they need."""

from __future__ import annotations

import subprocess
import sys

from tests.plugin.selecting import ROOT

COLLECT = """
import pytest, yaml
from conformance.plugin.judge.stash import PLANNED
from conformance.pods.roles import MANIFESTS

def calicos(path):
    documents = yaml.safe_load_all((MANIFESTS / path).read_text())
    return any(item["apiVersion"].startswith("projectcalico.org/") for item in documents if item)

class Writers:
    def pytest_collection_finish(self, session):
        for item in session.items:
            mark = item.get_closest_marker("manifest")
            if mark and not mark.kwargs.get("otherwise") and calicos(mark.args[0]):
                needs = item.stash[PLANNED].needs
                print("writes" if needs.calico_policy or needs.v3_api else "needs-nothing", item.nodeid)

pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"], plugins=[Writers()])
"""


def test_whoever_writes_calico_policies_alone_is_not_run_where_they_cannot_be_written() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith("writes ")]) > 20
    assert [line for line in lines if line.startswith("needs-nothing ")] == []
