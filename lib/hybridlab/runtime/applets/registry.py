# SPDX-License-Identifier: Apache-2.0
"""All applets of the lab by name, collected once when labd starts."""

from collections.abc import Mapping

from hybridlab.runtime.applet import Applet
from hybridlab.runtime.applets import (
    agnhost,
    birdcl,
    busybox,
    coredns,
    nc,
    nginx,
    nslookup,
    porter,
    wget,
    windows_tools,
)
from hybridlab.runtime.applets.coredns import ServeNames

LINUX: Mapping[str, Applet] = {
    "nc": nc.nc,
    "wget": wget.wget,
    "nslookup": nslookup.nslookup,
    "ping": busybox.ping,
    "ip": busybox.ip,
    "hostname": busybox.hostname,
    "sleep": busybox.sleep,
    "echo": busybox.echo,
    "true": busybox.true,
    "false": busybox.false,
    "nginx": nginx.nginx,
    "pause": busybox.idle,
    "idle": busybox.elsewhere,
    "agnhost": agnhost.agnhost,
    "birdcl": birdcl.birdcl,
}

WINDOWS: Mapping[str, Applet] = {
    "ping": windows_tools.ping,
    "ipconfig": windows_tools.ipconfig,
    "hostname": windows_tools.hostname,
    "findstr": windows_tools.findstr,
    "porter": porter.porter,
    "agnhost": agnhost.agnhost,
    "pause": busybox.idle,
    "idle": busybox.elsewhere,
    "true": busybox.true,
}


def linux(resolver: ServeNames | None = None) -> dict[str, Applet]:
    """Return Linux applets; ``resolver`` serves the cluster's DNS in the coredns image."""
    applets = dict(LINUX)
    if resolver is not None:
        applets["coredns"] = coredns.coredns(resolver)
    return applets


def windows(more: Mapping[str, Applet] | None = None) -> dict[str, Applet]:
    """Return Windows applets including ``more`` (powershell, calico-node); cmd can start all of
    them."""
    applets = {**WINDOWS, **(more or {})}
    applets["cmd"] = windows_tools.cmd(applets)
    return applets
