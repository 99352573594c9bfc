# SPDX-License-Identifier: Apache-2.0
"""``python -m hybridlab.labd SOCKET PARENT SETTINGS``: enter the namespaces, then become pid 1 of
the lab.

Only ``labd.launch`` starts this program. Few modules are imported before the fork, so that the
waiter (the process that waits for pid 1 outside the pid namespace) stays small.
"""

import os
import signal
import sys
from typing import NoReturn

from hybridlab.kernel import enter, namespaces, preflight


def start() -> NoReturn:
    """Start labd without waiting; end at once if the parent is gone already."""
    control = int(sys.argv[1])
    parent = int(sys.argv[2])
    settings = sys.argv[3]
    os.set_inheritable(control, False)
    lack = preflight.enter_or_lack()
    # Entering a user namespace clears the parent-death signal, so it is requested only now. The
    # parent may have died before.
    namespaces.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    if lack is not None:
        from hybridlab.labd.main import report_failure

        report_failure(control, [lack])
        sys.exit(1)

    def inside() -> int:
        probe = preflight.start_probe()
        from hybridlab.labd.main import run

        return run(control, settings, probe)

    enter.become_waiter(inside, "labd")


if __name__ == "__main__":
    start()
