# SPDX-License-Identifier: Apache-2.0
"""Record the golden answers again, from a real API server: ``python -m
tests.contract.apiserver.record [NAME...]``.

KUBEBUILDER_ASSETS names a folder with etcd, kube-apiserver and kube-controller-manager (``make
kube-binaries``).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.contract.apiserver.comparing import write_golden
from tests.contract.apiserver.conversation import CONVERSATIONS, load
from tests.contract.apiserver.holding import Holder
from tests.contract.apiserver.servers import missing_binaries, real_server


def main(names: list[str]) -> int:
    """Record the named conversations, or all."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    missing = missing_binaries(assets)
    if missing:
        print(
            f"KUBEBUILDER_ASSETS={assets} lacks {', '.join(missing)}: make kube-binaries",
            file=sys.stderr,
        )
        return 7
    with tempfile.TemporaryDirectory() as folder, real_server(assets, Path(folder)) as server:
        for path in CONVERSATIONS:
            conversation = load(path)
            if names and conversation.name not in names:
                continue
            if conversation.controllers and not server.controllers:
                print(f"{conversation.name}: not recorded, it needs kube-controller-manager")
                continue
            answers = Holder(server).hold(conversation)
            write_golden(conversation.name, answers)
            print(f"{conversation.name}: {len(answers)} answers", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
