"""The programs of manifests/nodes that Windows hosts run, as HostProcess containers can be given them."""

import functools

from conformance.product import MANIFESTS


@functools.cache
def one_line(name: str) -> str:
    """A program as one line, since HostProcess containers of containerd 1.6 run commands by ``cmd /c``."""
    lines = (MANIFESTS / "nodes" / name).read_text(encoding="ascii").splitlines()
    return " ".join(line for line in lines if not line.startswith("#"))
