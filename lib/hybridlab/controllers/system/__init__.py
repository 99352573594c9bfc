"""System workloads as API objects: the pods that a hybrid cluster with Calico consists of, with their real shape.

Their programs run elsewhere in the lab (API server, Felix, kube-proxy ...); here they are what kubectl and a
conformance suite see of them: on the right operating system, with real arguments, environment and labels.
"""

from __future__ import annotations

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.system import calico, kubernetes
from hybridlab.profiles.model import Profile


def namespaces(profile: Profile) -> list[str]:
    """Namespaces that exist before anything else."""
    return ["default", "kube-system", "kube-public", "kube-node-lease", *calico.namespaces(profile)]


def objects(profile: Profile, api_address: str, api_port: int) -> list[tuple[str, Obj]]:
    """(resource, object) in the order in which they are created."""
    return [
        *kubernetes.objects(profile, api_address, api_port),
        *calico.objects(profile),
    ]


async def create(client: Client, profile: Profile, api_address: str, api_port: int) -> None:
    """Create all of them; namespaces must exist."""
    for resource, body in objects(profile, api_address, api_port):
        await client.create(resource, body, body["metadata"].get("namespace"))
