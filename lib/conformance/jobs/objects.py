# SPDX-License-Identifier: Apache-2.0
"""The objects of a run inside the cluster: its namespace, its user with roles, and its Job.

The Job's pod has two containers of one image: ``judge`` runs the suite, and ``holder`` keeps the
results until ``calico-conformance fetch`` has fetched them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.errors import UsageProblem
from conformance.kube import runner
from conformance.kube.client import Obj
from conformance.kube.ownership import RUNNER_NAMESPACE
from conformance.pods.placement import tolerations

RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}
USER = 65532
"""The user id of the image's user, who owns no file in the image."""
GRACE = 600
"""Seconds for an interrupted run to restore its changes, such as a drained node or a VNI."""
JUDGE = "judge"
HOLDER = "holder"
RESULTS = "/results/$(POD_NAME)"
"""The folder of the run's results. Kubelets fill in the name of the Job's pod, so that a volume may
have the results of several Jobs."""
FILES = "/config"
WITH_FILES = ("--timings", "--images", "--waivers", "--attest", "--baseline", "--rerun-of")
"""Options that name a file of the user. The Job gets a copy of the file."""
MOST = 900_000
"""The maximum size of all the user's files together, in bytes: a ConfigMap holds 1 MiB."""
OF_THE_JOB = ("--cluster", "--kubeconfig", "--context", "--lab-profile", "--report-dir")
"""Options that the Job sets itself."""
KEPT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
}
"""Annotations of the Job's pod. The suite's other pods have them, too. They keep controllers from
moving a pod, or from adding a container that does not end."""
ENVIRONMENT = {
    "CALICO_CONFORMANCE_NODE": "spec.nodeName",
    "CALICO_CONFORMANCE_POD_IP": "status.podIP",
    "POD_NAME": "metadata.name",
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options that a user has chosen for a Job."""

    image: str
    name: str = "conformance"
    role: str = runner.ROLES[0]
    beside: Sequence[str] = ()
    """Roles that are added to the user's role."""
    prefix: str = ""
    """The prefix of prepared namespaces (``--namespaces-prefix``); empty: the run makes its own."""
    workers: int = 2
    volume: str = ""
    """The name of the volume claim for the results; empty: the results are deleted with the pod."""
    node: str = ""
    """The node to run on; empty: any Linux node."""
    pull_secrets: Sequence[str] = ()
    options: Sequence[str] = ()
    """The options of the run."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The texts of the files that the run reads, by file name."""


def taken_along(options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a run's options with the files' paths in the Job, and the texts of these files.

    Raise UsageProblem for a file that cannot be read, and for an option that is the Job's own.
    """
    found: list[str] = []
    files: dict[str, str] = {}
    rest = iter(options)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in OF_THE_JOB:
            raise UsageProblem(f"{name}: the Job sets this option; leave it out")
        if name in WITH_FILES:
            path = Path(value if equals else next(rest, ""))
            files[f"{name[2:]}{path.suffix}"] = _text(name, path)
            found.append(f"{name}={FILES}/{name[2:]}{path.suffix}")
        else:
            found.append(word)
    if (size := sum(len(text.encode()) for text in files.values())) > MOST:
        raise UsageProblem(
            f"{', '.join(sorted(files))}: {size} bytes, but a ConfigMap holds at most {MOST}"
        )
    return found, files


def _text(option: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"{option}={path}: {getattr(error, 'strerror', '') or 'not text in UTF-8'}"
        ) from None


def objects(wanted: Wanted) -> Iterator[Obj]:
    """Yield all objects, in the order in which they must be created. Raise UsageProblem."""
    account, made = (
        runner.user_of_prefix(wanted.prefix, wanted.workers)
        if wanted.prefix
        else runner.user_of(wanted.role, wanted.beside)
    )
    for obj in made:
        own = obj["kind"] == "Namespace" and obj["metadata"]["name"] == RUNNER_NAMESPACE
        yield obj | {"metadata": obj["metadata"] | {"labels": RESTRICTED}} if own else obj
    if wanted.files:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": wanted.name, "namespace": RUNNER_NAMESPACE},
            "data": dict(wanted.files),
        }
    yield _job(wanted, account)


def _job(wanted: Wanted, account: str) -> Obj:
    """Return the Job.

    Its pod is never replaced by a second pod, whatever the judge's exit code. A second pod would
    repeat what the first pod has decided, or disrupt again what the first pod could not restore.
    podReplacementPolicy also keeps Kubernetes from starting a pod while another is being deleted.
    """
    never_again = {
        "action": "FailJob",
        "onExitCodes": {"containerName": JUDGE, "operator": "NotIn", "values": [0]},
    }
    template = {
        "metadata": {"labels": {"app.kubernetes.io/name": RUNNER_NAMESPACE}, "annotations": KEPT},
        "spec": _pod(wanted, account),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": wanted.name, "namespace": RUNNER_NAMESPACE},
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [never_again]},
            "template": template,
        },
    }


def _pod(wanted: Wanted, account: str) -> Obj:
    prefix = [f"--namespaces-prefix={wanted.prefix}"] if wanted.prefix else []
    run = [
        "run",
        "--cluster=in-cluster",
        f"--report-dir={RESULTS}",
        "-p",
        "no:cacheprovider",
        "-n",
        "auto",
        *prefix,
        *(option.replace("$(", "$$(") for option in wanted.options),
    ]
    results = (
        {"persistentVolumeClaim": {"claimName": wanted.volume}}
        if wanted.volume
        else {"emptyDir": {}}
    )
    volumes: list[Obj] = [
        {"name": "results", **results},
        {"name": "judge-tmp", "emptyDir": {}},
        {"name": "holder-tmp", "emptyDir": {}},
    ]
    if wanted.files:
        volumes.append({"name": "files", "configMap": {"name": wanted.name}})
    spec: Obj = {
        "restartPolicy": "Never",
        # A process with id 1 ignores a SIGTERM that arrives before its handler is installed. In a
        # shared process namespace, no process of these containers has id 1.
        "shareProcessNamespace": True,
        "serviceAccountName": account,
        "terminationGracePeriodSeconds": GRACE,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": tolerations(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            _container(JUDGE, wanted, run, {"cpu": "500m", "memory": "1Gi"}),
            _container(HOLDER, wanted, ["hold", RESULTS], {"cpu": "10m", "memory": "64Mi"}),
        ],
        "volumes": volumes,
    }
    if wanted.node:
        by_name = {"key": "metadata.name", "operator": "In", "values": [wanted.node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if wanted.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in wanted.pull_secrets]
    return spec


def _container(name: str, wanted: Wanted, words: Sequence[str], requests: Obj) -> Obj:
    fields: list[dict[str, Any]] = [
        {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for variable, path in ENVIRONMENT.items()
    ]
    mounts: list[Obj] = [
        {"name": "results", "mountPath": "/results"},
        {"name": f"{name}-tmp", "mountPath": "/tmp"},
    ]
    if wanted.files:
        mounts.append({"name": "files", "mountPath": FILES, "readOnly": True})
    return {
        "name": name,
        "image": wanted.image,
        "args": list(words),
        "env": [*fields, {"name": "CALICO_CONFORMANCE_GRACE", "value": str(GRACE)}],
        "resources": {"requests": requests},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
