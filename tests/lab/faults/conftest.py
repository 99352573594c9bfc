# SPDX-License-Identifier: Apache-2.0
"""Every fault as a user meets it: injected from outside, felt by commands run in pods, gone when it is healed.

The kernel tests next door show each mechanism; these show that one lab, put together, obeys its control socket and its
command.  Every effect is seen before (absent), during (present) and after (absent again).
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
    """A lab of its own for each file."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on the PATH")
    with running_lab(tmp_path_factory.mktemp("faults")) as lab:
        lab.kubectl("apply", "-f", "-", stdin=PODS + SERVICE)
        lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        directory = lab_of(lab.kubeconfig)
        assert directory is not None
        yield Town(lab, directory / "control.sock")
