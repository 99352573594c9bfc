"""Every fault that a lab has on any plane; those of one plane are in that plane's folder of ``networks``."""

from hybridlab.faults import (
    api,
    backends,
    cni_token,
    denials,
    dns_pods,
    exec,
    felix,
    felix_crash_loop,
    hairpin,
    hns,
    kubelet,
    paths,
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
    paths,
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
    hns,
    exec,
    api,
    kubelet,
    pods,
    cni_token,
)
"""In the order in which faults are listed."""
TYPES = tuple(kind for module in _MODULES for kind in module.TYPES)
"""What can be injected everywhere."""
