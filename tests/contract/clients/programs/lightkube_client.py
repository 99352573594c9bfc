# SPDX-License-Identifier: Apache-2.0
"""``lightkube``: ``python lightkube_client.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import sys
from typing import Any

from lightkube import Client, KubeConfig
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import CascadeType

from tests.contract.clients.programs.steps import step


def main() -> None:
    kubeconfig, namespace = sys.argv[1:3]
    client: Any = Client(
        config=KubeConfig.from_file(kubeconfig).get(), namespace=namespace, field_manager="one"
    )
    container = Container("c", image="busybox:1.36", command=["sleep", "3600"])
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=[container]))

    def applied() -> None:
        for manager, value in (("one", "1"), ("two", "2")):
            wanted = ConfigMap(metadata=ObjectMeta(name="m"), data={"a": value})
            found = client.apply(wanted, field_manager=manager, force=True)
            assert found.data == {"a": value}, found

    def watched() -> None:
        for kind, _ in client.watch(ConfigMap, server_timeout=5):
            assert kind == "ADDED"
            return
        raise AssertionError("a watch ended without an event")

    def job() -> None:
        assert list(client.list(Job)) == []
        template = PodTemplateSpec(spec=PodSpec(containers=[container], restartPolicy="Never"))
        client.create(
            Job.from_dict({"metadata": {"name": "j"}, "spec": {"template": template.to_dict()}})
        )

    step(
        "create",
        lambda: (client.create(Namespace(metadata=ObjectMeta(name=namespace))), client.create(pod)),
    )
    step("wait", lambda: client.wait(Pod, "p", for_conditions=["Ready"]))
    step("apply with force", applied)
    step("watch", watched)
    step("logs", lambda: list(client.log("p")))
    step("create a job", job)
    step("delete", lambda: client.delete(Pod, "p", cascade=CascadeType.FOREGROUND))
    step("delete the namespace", lambda: client.delete(Namespace, namespace))


main()
