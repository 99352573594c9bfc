# SPDX-License-Identifier: Apache-2.0
"""Writes Calico objects: through projectcalico.org/v3 if the cluster serves it, else with
calicoctl, else not at all.

The suite never writes crd.projectcalico.org/v1, since it is Calico's storage, with names and
defaults of its own. It only deletes objects that dead runs left there, if the cluster serves no
other API (:mod:`conformance.undo.cleanup`).
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import MissingCapability, UsageProblem
from conformance.kube import guard
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Kube, Obj
from conformance.kube.refused import ApiRefused
from conformance.model.change import Change, ObjectRef

V3 = "projectcalico.org/v3"
CRD = "crd.projectcalico.org/v1"
ADDRESS = "projectcalico.org/IPv4Address"
"""Annotation by which a node announces its address."""
TUNNEL = "projectcalico.org/IPv4VXLANTunnelAddr"
"""Annotation by which a node announces the address of its end of the overlay."""


def v3_remedy(away: Mapping[str, str]) -> str:
    """Return advice on how to make the cluster serve projectcalico.org/v3. ``away``: APIs that the
    API server lists but that do not answer."""
    if V3 in away:
        return (
            f"find out why the server of {V3} does not answer: "
            "kubectl describe apiservice v3.projectcalico.org"
        )
    return "install Calico's API server (with the operator: create APIServer default)"


class CalicoApi:
    """A way to write Calico objects on one cluster; ``how`` names it for the report."""

    def __init__(
        self,
        kube: Kube,
        changes: Changes,
        *,
        calicoctl: Path | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
        answer_within: float = 30.0,
    ) -> None:
        self.kube = kube
        self.changes = changes
        self._calicoctl = calicoctl
        self._kubeconfig = kubeconfig
        self._context = context
        self._within = answer_within
        if calicoctl is not None and not (calicoctl.is_file() and os.access(calicoctl, os.X_OK)):
            raise UsageProblem(f"--calicoctl {calicoctl} is not an executable file")
        self.direct = kube.discovery.serves(V3, "NetworkPolicy")

    @property
    def how(self) -> str:
        """Return ``projectcalico.org/v3``, ``calicoctl PATH``, or ``not at all``."""
        if self.direct:
            return V3
        return f"calicoctl {self._calicoctl}" if self._calicoctl else "not at all"

    def require(self) -> None:
        """Raise MissingCapability if Calico objects cannot be written on this cluster."""
        if self.how == "not at all":
            away = self.kube.discovery.away
            now = f" now ({away[V3]})" if V3 in away else ""
            raise MissingCapability(
                f"the cluster does not serve {V3}{now}, so Calico policies cannot be written",
                f"{v3_remedy(away)}, or set --calicoctl=PATH",
            )

    def apply(self, obj: Obj, why: str, *, namespace: str | None = None) -> None:
        """Create or update a Calico object (``apiVersion: projectcalico.org/v3``).

        Raise MissingCapability, GuardRefused, ApiRefused (the server or calicoctl refuses).
        """
        self.require()
        if self.direct:
            self.changes.apply(obj, why, namespace=namespace)
            return
        change = Change(verb="apply", target=reference(obj, namespace), why=why, body=obj)
        body = self.changes.run.sign(obj)
        if namespace:
            body["metadata"]["namespace"] = namespace
        self._run(change, ["apply", "-f", "-"], json.dumps(body))

    def delete(self, target: ObjectRef, why: str) -> None:
        """Delete a Calico object. Do nothing if it does not exist."""
        self.require()
        if self.direct:
            self.changes.delete(target, why)
            return
        change = Change(verb="delete", target=target, why=why)
        space = ["--namespace", target.namespace] if target.namespace else []
        self._run(change, ["delete", target.kind, target.name, "--skip-not-exists", *space], "")

    def _run(self, change: Change, arguments: list[str], stdin: str) -> None:
        guard.check(change, self.changes.run)
        if self.changes.dry_run:
            self.changes.tell(f"dry run: {change.label}")
            return
        environment = dict(os.environ, DATASTORE_TYPE="kubernetes")
        if self._kubeconfig:
            environment["KUBECONFIG"] = str(self._kubeconfig)
        if self._context:
            environment["K8S_CURRENT_CONTEXT"] = self._context
        command = [str(self._calicoctl), *arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                env=environment,
                capture_output=True,
                text=True,
                timeout=self._within,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingCapability(
                f"calicoctl could not be run: {error}", "check --calicoctl=PATH"
            ) from error
        if done.returncode:
            raise ApiRefused(
                done.returncode,
                "(exit code of calicoctl)",
                " ".join((done.stderr or done.stdout).split())[:500],
                change.label,
            )
        self.changes.made.append(change)
