# SPDX-License-Identifier: Apache-2.0
"""The commands for kubectl and helm, and the expected end of each command."""

from __future__ import annotations

from dataclasses import dataclass

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: "nginx:1.27", ports: [{containerPort: 80}]}]}
"""
POLICY = """
apiVersion: crd.projectcalico.org/v1
kind: NetworkPolicy
metadata: {name: by-definition}
spec: {selector: app == 'web', ingress: [{action: Allow}]}
"""
QUOTED = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: quoted}
spec: {podSelector: {}, ingress: [{ports: [{port: "80"}]}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}
"""
VOLUME = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: c}}"


@dataclass(frozen=True)
class Command:
    """One command, in the namespace of its row."""

    words: str
    """The words of the command; ``{pod}`` stands for a pod of the Deployment ``web``."""
    has: str = ""
    """A text that the output must contain; for a refused command, the error."""
    code: int = 0
    """The expected exit code; 1 if a real cluster refuses the command, too."""
    given: str = ""
    """Standard input."""
    lab: str = ""
    """``named``: the lab refuses the command and reports it as not emulated; ``hidden``: kubectl's
    own words hide this report."""

    title: str = ""

    @property
    def name(self) -> str:
        return self.title or self.words.partition(" --image")[0]


KUBECTL = (
    Command("create namespace {ns}", "created"),
    Command("apply -f -", "deployment.apps/web created", given=DEPLOYMENT, title="apply"),
    Command("apply -f -", "deployment.apps/web unchanged", given=DEPLOYMENT, title="apply again"),
    Command("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    Command("wait --for=condition=Available deployment/web --timeout=30s", "condition met"),
    Command("diff -f -", given=DEPLOYMENT),
    Command("apply --server-side --force-conflicts -f -", "serverside-applied", given=DEPLOYMENT),
    Command("get pods -o wide -l app=web", "NOMINATED NODE"),
    Command("get all", "deployment.apps/web"),
    Command("get deployment web -o yaml", "kind: Deployment"),
    Command("get pods -w --request-timeout=2s", "{pod}", code=-1),
    Command("describe deployment web", "NewReplicaSet:"),
    Command("describe pod {pod}", "Started container"),
    Command("events", "Scheduled"),
    Command("get events --field-selector source=kubelet", "Started"),
    Command("exec {pod} -- hostname", "{pod}"),
    Command("logs deployment/web --timestamps --tail=1"),
    Command("scale deployment/web --replicas=1", "scaled"),
    Command("set image deployment/web nginx=nginx:1.28", "image updated"),
    Command("rollout history deployment/web", "REVISION"),
    Command("rollout undo deployment/web", "rolled back"),
    Command('patch deployment web -p {"spec":{"minReadySeconds":0}}', "patched"),
    Command(
        'patch deployment web --type=json -p [{"op":"add","path":"/spec/replicas","value":2}]',
        "patched",
    ),
    Command("rollout status deployment/web --timeout=60s", "successfully rolled out"),
    Command("label deployment web a=b", "labeled"),
    Command("annotate deployment web a=b", "annotated"),
    Command("expose deployment web --port=80", "exposed"),
    Command("get endpointslices -l kubernetes.io/service-name=web", "web-"),
    Command("delete endpointslices -l kubernetes.io/service-name=web", "deleted"),
    Command(
        "wait --for=create endpointslice -l kubernetes.io/service-name=web --timeout=10s",
        "condition met",
    ),
    Command("create configmap c --from-literal=a=b", "created"),
    Command("create secret generic s --from-literal=a=b", "created"),
    Command("create rolebinding v --clusterrole=view --serviceaccount={ns}:robot", "created"),
    Command("auth can-i list pods --as=system:serviceaccount:{ns}:robot", "yes"),
    Command("auth can-i delete pods --as=system:serviceaccount:{ns}:robot", "no", code=1),
    Command("get pods --as=bob --as-group=devs", 'User "bob" cannot list', code=1),
    Command("auth whoami", "kubernetes-admin"),
    Command("api-resources", "horizontalpodautoscalers"),
    Command("explain deployment.spec.replicas", "replicas"),
    Command("cluster-info", "is running at"),
    Command("cluster-info dump --namespaces {ns}", '"kind": "PodList"'),
    Command(
        "apply -f -",
        "by-definition created",
        given=POLICY,
        title="apply a policy of crd.projectcalico.org",
    ),
    Command("apply -f -", "by-definition unchanged", given=POLICY, title="apply that policy again"),
    Command(
        "apply -f -",
        "must contain at least one letter",
        code=1,
        given=QUOTED,
        title="apply a quoted port",
    ),
    Command("get hpa,sts,rc,jobs,cronjobs,ingress", "No resources found"),
    Command("top pods", "Metrics API not available", code=1),
    Command("create job j --image=busybox:1.36", "not emulated: jobs.batch", 1, lab="named"),
    Command("apply -f -", "not emulated: jobs.batch", 1, JOB, lab="named", title="apply a job"),
    Command(
        "create cronjob c --image=busybox:1.36 --schedule=@daily",
        "not emulated: cronjobs.batch",
        1,
        lab="named",
    ),
    Command(
        "create ingress i --rule=a.com/b=s:80",
        "not emulated: ingresses.networking.k8s.io",
        1,
        lab="named",
    ),
    Command("create quota q --hard=pods=2", "not emulated: resourcequotas", 1, lab="named"),
    Command(
        "autoscale deployment web --max=3 --cpu-percent=50",
        "horizontalpodautoscalers.autoscaling",
        1,
        lab="named",
    ),
    Command(
        "get --raw /apis/storage.k8s.io/v1/storageclasses",
        "not emulated: storageclasses",
        1,
        lab="named",
    ),
    Command("get pv", "doesn't have a resource type", 1, lab="hidden"),
    Command("apply -f -", "no matches for kind", 1, VOLUME, lab="hidden", title="apply a volume"),
    Command("cp {pod}:/etc/hosts /dev/null", "not emulated", -1, lab="named"),
    Command("port-forward {pod} 0:80", "not emulated", -1, lab="named"),
    Command("attach {pod}", "not emulated", 1, lab="named"),
    Command("debug {pod} --image=busybox:1.36 --attach=false", "not emulated", 1, lab="named"),
    Command("delete deployment web", "deleted"),
    Command("delete namespace {ns} --wait=false", "deleted"),
)
SET = "--set=image.tag=1.27"
HELM = (
    Command("create {folder}/web", "Creating"),
    Command(f"install web {{folder}}/web --create-namespace --wait --timeout 60s {SET}", "STATUS: deployed"),
    Command(f"upgrade web {{folder}}/web --wait --timeout 60s {SET} --set=replicaCount=2", "REVISION: 2"),
    Command("history web", "superseded"),
    Command("get values web", "tag"),
    Command("rollback web 1 --wait --timeout 60s", "Rollback was a success"),
    Command("list", "deployed"),
    Command(f"install dry {{folder}}/web --dry-run=server {SET}", "kind: Deployment"),
    Command(f"install scaled {{folder}}/web {SET} --set=autoscaling.enabled=true",
            "not emulated: horizontalpodautoscalers.autoscaling", 1, lab="named"),
    Command(f"install opened {{folder}}/web {SET} --set=ingress.enabled=true",
            "not emulated: ingresses.networking.k8s.io", 1, lab="named"),
    Command("uninstall web --wait --timeout 60s", "uninstalled"),
)  # fmt: skip
