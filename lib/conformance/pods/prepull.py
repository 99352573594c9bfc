# SPDX-License-Identifier: Apache-2.0
"""Pulls images onto nodes before tests wait for them, with progress lines, since server core alone
takes 10 minutes. Nodes that already report an image are skipped; if all nodes do, nothing is
created."""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from conformance.errors import EnvironmentBroken, MissingCapability
from conformance.kube import manifest
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.prepared import BASELINE, vacate
from conformance.model.change import ObjectRef
from conformance.model.counted import counted
from conformance.model.facts import NodeFacts
from conformance.pods import tailor
from conformance.pods.images import is_on, split
from conformance.pods.nodes_lost import NodeWatch
from conformance.pods.placement import tolerations
from conformance.pods.pull_secrets import copy_pull_secrets, pull_with
from conformance.pods.roles import MANIFESTS, ROLES
from conformance.settings import Settings

NO_SANDBOX = "FailedCreatePodSandBox"
"""Reason of the kubelet's event when a pod gets no network. Images are pulled only after that
step."""


def needed(node: NodeFacts, settings: Settings) -> list[str]:
    """Return the images that the suite's pods need on a node, without small HostProcess images.

    Raise MissingCapability.
    """
    found: list[str] = []
    in_containers = [role for role in ROLES.values() if role.os == "linux" or not role.host_network]
    for path in sorted({role.manifest for role in in_containers if role.os == node.os}):
        for obj in manifest.load(MANIFESTS / path):
            spec = copy.deepcopy(obj["spec"]["template"]["spec"])
            tailor.fit(spec, node, settings.images)
            found += [container["image"] for container in spec["containers"]]
    return list(dict.fromkeys(found))


def present(node: Obj) -> set[str]:
    """Return the images that a Node object reports, in every spelling that the node uses. A kubelet
    reports at most 50 images."""
    names = {
        name
        for image in (node.get("status") or {}).get("images") or []
        for name in image.get("names") or []
    }
    return names | {name.removeprefix("docker.io/library/") for name in names}


class Prepull:
    """Pulls the images that nodes lack, in its own namespace, which it removes again."""

    def __init__(
        self,
        kube: Kube,
        changes: Changes,
        settings: Settings,
        progress: Callable[[str], None],
        watch: NodeWatch | None = None,
    ) -> None:
        self.kube = kube
        self.changes = changes
        self.settings = settings
        self.progress = progress
        self.watch = watch or NodeWatch(kube)
        self.namespace = f"{changes.run.base}-prepull"
        self._pull_secrets: dict[str, str] = {}

    def run(self, nodes: Sequence[NodeFacts]) -> int:
        """Pull the missing images on ``nodes`` and wait for them. Return the number of nodes on
        which an image was pulled.

        Raise EnvironmentBroken if an image cannot be pulled (with the event's text), or if a node
        dies meanwhile.
        """
        reported = {
            obj["metadata"]["name"]: present(obj) for obj in self.kube.objects("v1", "Node")
        }
        missing: dict[tuple[str, ...], list[NodeFacts]] = {}
        for node in nodes:
            try:
                wanted = needed(node, self.settings)
            except MissingCapability:  # tests that need a pod on that node report this
                continue
            images = tuple(
                item for item in wanted if not is_on(item, reported.get(node.name, set()))
            )
            if images:
                missing.setdefault((node.os, *images), []).append(node)
        if not missing:
            return 0
        self.changes.namespace(
            self.namespace, labels=BASELINE, why="pulls images before pods wait for them"
        )
        try:
            self._pull_secrets = copy_pull_secrets(
                self.kube, self.changes, self.settings.images, self.namespace
            )
            with ThreadPoolExecutor(max_workers=8) as pool:
                work = [
                    pool.submit(self._pull, f"prepull-{os}-{number}", images, group)
                    for number, ((os, *images), group) in enumerate(missing.items())
                ]
                for future in work:
                    future.result()
        finally:
            if self.changes.run.prefix:
                timings = self.settings.timings.windows
                vacate(
                    self.changes, [self.namespace], within=timings.delete, every=timings.poll_every
                )
            else:
                self.changes.delete(
                    ObjectRef(api_version="v1", kind="Namespace", name=self.namespace),
                    "the images are there",
                )
        return sum(len(group) for group in missing.values())

    def _pull(self, name: str, images: Sequence[str], nodes: Sequence[NodeFacts]) -> None:
        os = nodes[0].os
        made = manifest.load(MANIFESTS / "prepull" / f"{os}.yaml")[0]
        made["metadata"] |= {"name": name, "labels": {"app": name}}
        made["spec"]["selector"] = {"matchLabels": {"app": name}}
        made["spec"]["template"]["metadata"]["labels"] = {"app": name}
        spec = made["spec"]["template"]["spec"]
        pattern = spec["containers"][0]
        spec["containers"] = [
            {**copy.deepcopy(pattern), "name": f"image-{number}", "image": image}
            for number, image in enumerate(images)
        ]
        spec["tolerations"] = tolerations(self.settings.tolerations)
        if self.settings.images.all_pull_secrets:
            spec["imagePullSecrets"] = [
                {"name": pull_secret} for pull_secret in self.settings.images.all_pull_secrets
            ]
            pull_with(spec, self._pull_secrets)
        if self.settings.pod_limits:
            tailor.limit(spec, self.settings.pod_limits)
        spec["affinity"] = tailor.on_nodes(*(node.name for node in nodes))
        self.changes.apply(
            made,
            f"pulls {', '.join(images)} on {counted(len(nodes), 'node')}",
            namespace=self.namespace,
        )
        if self.changes.dry_run:
            return
        what = ", ".join(split(image)[0].rpartition("/")[2] for image in images)
        try:
            self.changes.waits.pods_ready(
                self.namespace,
                f"app={name}",
                len(nodes),
                within=self.settings.timings.of(os).image_pull,
                progress=lambda state: self.progress(f"pulling {what} on {os} nodes: {state}"),
                lost=lambda: self.watch.lost([node.name for node in nodes]),
            )
        except EnvironmentBroken as error:
            if not self._without_network(name):
                raise
            self.progress(
                f"{str(error).partition(chr(10))[0]}; the images are not the cause: tests continue"
            )

    def _without_network(self, name: str) -> bool:
        """Return whether any pod failed before it pulled images, because the CNI plugin gave it no
        network."""
        pods = self.kube.objects("v1", "Pod", self.namespace, labels=f"app={name}")
        events = [event for pod in pods for event in self.changes.waits.events(pod)]
        return any(event.get("reason") == NO_SANDBOX for event in events)
