# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration of Windows nodes, as the operator renders it, and as a template in Calico's
image contains it."""

from collections.abc import Mapping
from typing import Any

from hybridlab.profiles.machines import dns_address
from hybridlab.profiles.model import Profile


def ipam(profile: Profile) -> dict[str, str]:
    """Return the configuration's object ``ipam``, which names the source of addresses."""
    by_node = profile.network.ipam == "host-local"
    return {"type": profile.network.ipam, **({"subnet": "usePodCidr"} if by_node else {})}


def windows_cni(profile: Profile, plane: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CNI configuration; ``plane``: the fields of the plugin that depend on the
    network."""
    network = profile.network
    return {
        "name": "Calico",
        "cniVersion": "0.3.1",
        "plugins": [
            {
                "type": "calico",
                **plane,
                "windows_use_single_network": True,
                "datastore_type": "kubernetes",
                "nodename_file_optional": True,
                "log_file_path": "c:/var/log/calico/cni/cni.log",
                "DNS": {
                    "Nameservers": [dns_address(profile)],
                    "Search": [f"svc.{network.dns_domain}"],
                },
                "policies": [
                    {
                        "Name": "EndpointPolicy",
                        "Value": {"Type": "OutBoundNAT", "ExceptionList": [network.service_cidr]},
                    },
                    {
                        "Name": "EndpointPolicy",
                        "Value": {
                            "Type": "SDNROUTE",
                            "DestinationPrefix": network.service_cidr,
                            "NeedEncap": True,
                        },
                    },
                ],
                "ipam": ipam(profile),
                "policy": {"type": "k8s"},
                "kubernetes": {"kubeconfig": f"{profile.windows.cni_config_dir}/calico-kubeconfig"},
            }
        ],
    }
