# SPDX-License-Identifier: Apache-2.0
"""Every fault as a user experiences it: injected from outside, noticed by commands in pods, and
gone after it is healed.

The kernel tests in the neighbouring folders show each mechanism. These tests show that a complete
lab obeys its control socket and its command. Every effect is checked three times: absent before,
present during, and absent after the fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from hybridlab.cluster.kubeconfig import lab_of
from tests.lab.faults.town import PODS, SERVICE, Town
from tests.lab.lab_process import running_lab


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Provide one lab for each file."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on the PATH")
    with running_lab(tmp_path_factory.mktemp("faults")) as lab:
        lab.kubectl("apply", "-f", "-", stdin=PODS + SERVICE)
        lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        directory = lab_of(lab.kubeconfig)
        assert directory is not None
        yield Town(lab, directory / "control.sock")
