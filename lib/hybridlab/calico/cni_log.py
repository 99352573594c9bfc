# SPDX-License-Identifier: Apache-2.0
"""The log file of the CNI plugin on each node, as Calico's plugin writes and rotates it.

Lines have the format of ``libcalico-go/lib/logutils`` and the words of ``cni-plugin/pkg/plugin``;
only the end of each call is logged. The clock of every node is in UTC.
"""

from collections.abc import Callable
from datetime import UTC, datetime

PATH = {
    "linux": "/var/log/calico/cni/cni.log",
    "windows": "C:\\var\\log\\calico\\cni\\cni.log",
}
"""The operator's ``log_file_path`` (tigera/operator: pkg/render/node.go, pkg/render/windows.go)."""
ROTATED_AT = 32 * 1024
"""The size at which a new file is begun, in bytes; on real nodes 100 MB (``log_file_max_size``)."""


class CniLogs:
    """The log files of all nodes; an older file that rotation leaves behind is not kept."""

    def __init__(self) -> None:
        self.on_line: Callable[[str], None] = lambda node: None
        """Called with the node whose file has a new line."""
        self._texts: dict[str, str] = {}

    def text(self, node: str) -> str | None:
        """Return a node's log; None before the plugin's first call on the node."""
        return self._texts.get(node)

    def added(self, node: str, pod: str, problem: object = None) -> None:
        """Log the end of a call that adds a pod."""
        words = (
            f"[INFO][4711] cni-plugin/k8s.go 636: Wrote updated endpoint to datastore Pod={pod}"
            if problem is None
            else "[ERROR][4711] cni-plugin/plugin.go 586: Final result of CNI ADD was an error. "
            f"error={problem} Pod={pod}"
        )
        line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {words}\n"
        before = self._texts.get(node, "")
        self._texts[node] = line if len(before) + len(line) > ROTATED_AT else before + line
        self.on_line(node)
