"""What every namespace gets: the ServiceAccount ``default`` and the ConfigMap with the cluster's CA."""

from __future__ import annotations

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.controllers.cache import Caches, Handler
from hybridlab.controllers.work import Work

CA_CONFIG_MAP = "kube-root-ca.crt"


class Namespaces:
    """Furnishes namespaces as they appear, and again when somebody deletes the furniture."""

    def __init__(self, client: Client, caches: Caches, ca_pem: str) -> None:
        self._client, self._ca_pem = client, ca_pem
        self._namespaces = caches.of("namespaces")
        self._accounts, self._config_maps = caches.of("serviceaccounts"), caches.of("configmaps")
        self._work: Work[str] = Work("namespaces", self._look)
        self._namespaces.subscribe(lambda new, old: self._note(new))
        self._accounts.subscribe(self._gone("default"))
        self._config_maps.subscribe(self._gone(CA_CONFIG_MAP))

    def start(self) -> None:
        """Begin."""
        self._work.start()

    async def stop(self) -> None:
        """End."""
        await self._work.stop()

    def _note(self, namespace: Obj | None) -> None:
        if namespace is not None:
            self._work.note(namespace["metadata"]["name"])

    def _gone(self, name: str) -> Handler:
        def handler(new: Obj | None, old: Obj | None) -> None:
            if new is None and old is not None and old["metadata"]["name"] == name:
                self._work.note(old["metadata"]["namespace"])

        return handler

    async def _look(self, name: str) -> None:
        namespace = self._namespaces.get("", name)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        if self._accounts.get(name, "default") is None:
            await self._create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount"}, "default", name)
        if self._config_maps.get(name, CA_CONFIG_MAP) is None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": self._ca_pem}}
            await self._create("configmaps", body, CA_CONFIG_MAP, name)

    async def _create(self, resource: str, body: Obj, name: str, namespace: str) -> None:
        try:
            await self._client.create(resource, {**body, "metadata": {"name": name, "namespace": namespace}}, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
