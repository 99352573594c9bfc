"""``calico-node.exe`` in calico-node-windows' pod: the readiness check that Calico's operator has the kubelet run.

From tigera/operator (pkg/render/windows.go); Calico's manifests have no such check.  Felix is ready here when it runs.
"""

from hybridlab.runtime.applet import HostProblem, Process

FELIX = ("calico-node.exe", "calico.exe")
"""Names of its process, up to v3.31 and since."""


async def calico_node(process: Process) -> int:
    """``-felix-ready``: 0 when Felix of the node runs, else 1."""
    asked = process.argv[1:]
    if asked != ("-felix-ready",) or process.host is None:
        await process.stderr.write(f"not emulated: calico-node.exe {' '.join(asked)}\n".encode())
        return 127
    try:
        running = await process.host.ask("processes", {})
        ready = isinstance(running, list) and any(item["Name"] in FELIX for item in running)
    except HostProblem:
        ready = False
    if not ready:
        await process.stderr.write(b"calico/node is not ready: felix is not ready\n")
    return 0 if ready else 1
