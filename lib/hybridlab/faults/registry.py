"""Every fault that a lab has on any plane; those of one plane are in that plane's folder of ``networks``."""

from hybridlab.faults import (
    api,
    backends,
    denials,
    dns_pods,
    exec,
    felix,
    felix_crash_loop,
    flows,
    hairpin,
    hns,
    kubelet,
    path_slow,
    ping,
    pods,
    policy_edits,
    policy_lost,
    reprogramming,
    rules,
    search_list,
    service_source,
    zone,
)

_MODULES = (
    flows,
    path_slow,
    rules,
    denials,
    felix,
    policy_lost,
    policy_edits,
    reprogramming,
    felix_crash_loop,
    zone,
    dns_pods,
    search_list,
    backends,
    hairpin,
    service_source,
    ping,
    hns,
    exec,
    api,
    kubelet,
    pods,
)
"""In the order in which faults are listed."""
TYPES = tuple(kind for module in _MODULES for kind in module.TYPES)
"""What can be injected everywhere."""
