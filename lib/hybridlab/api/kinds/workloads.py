# SPDX-License-Identifier: Apache-2.0
"""Deployments, ReplicaSets and DaemonSets: defaults and checks."""

import re
from collections.abc import Iterable, Iterator

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, forbidden_field, invalid_value, required, unsupported
from hybridlab.api.kinds import pod_security
from hybridlab.api.kinds.metadata import label_problems
from hybridlab.api.kinds.pod_checks import pod_spec_problems
from hybridlab.api.kinds.pod_defaults import default_pod_spec
from hybridlab.api.kinds.strategy import Strategy, fill
from hybridlab.api.kinds.values import at_least_zero, invalid_if, one_of, unchanged
from hybridlab.api.selectors import object_selector
from hybridlab.api.store import Store

_PERCENT = re.compile(r"^[0-9]+%$")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def selector_problems(selector: Obj | None, at: str) -> Iterator[Cause]:
    """Return the problems of a ``metav1.LabelSelector``."""
    if not selector:
        return
    yield from label_problems(selector.get("matchLabels") or {}, f"{at}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        here = f"{at}.matchExpressions[{index}]"
        operator = item.get("operator", "")
        values = item.get("values") or []
        if operator not in _OPERATORS:
            yield invalid_value(f"{here}.operator", operator, "not a valid selector operator")
        elif operator in {"In", "NotIn"} and not values:
            yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in {"Exists", "DoesNotExist"} and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{here}.values", detail)


class WorkloadStrategy(Strategy):
    """The common rules of the three kinds: a selector and a pod template."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kind = kind

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        template = spec.setdefault("template", {})
        if isinstance(template, dict):
            template.setdefault("metadata", {})
            if isinstance(template.get("spec"), dict):
                default_pod_spec(template["spec"])
        if self._kind == "Deployment":
            fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
            _default_rolling(spec, "strategy", maxSurge="25%", maxUnavailable="25%")
        elif self._kind == "ReplicaSet":
            spec.setdefault("replicas", 1)
        else:
            spec.setdefault("revisionHistoryLimit", 10)
            _default_rolling(spec, "updateStrategy", maxSurge=0, maxUnavailable=1)

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        if self._kind == "DaemonSet" and not subresource:
            number = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1"))
            changed = obj["spec"].get("template") != old["spec"].get("template")
            _annotate(obj, str(number + changed))

    def prepare_create(self, obj: Obj) -> None:
        if self._kind == "DaemonSet":
            _annotate(obj, "1")
            obj["status"] = {
                "currentNumberScheduled": 0,
                "numberMisscheduled": 0,
                "desiredNumberScheduled": 0,
                "numberReady": 0,
            }
        elif self._kind == "ReplicaSet":
            obj["status"] = {"replicas": 0}
        else:
            obj["status"] = {}

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        if old is not None and old["spec"] == spec:
            return
        selector = spec.get("selector")
        if selector is None:
            yield required("spec.selector")
        else:
            yield from selector_problems(selector, "spec.selector")
            yield from invalid_if(
                not selector.get("matchLabels") and not selector.get("matchExpressions"),
                "spec.selector",
                {},
                f"empty selector is invalid for {self._kind.lower()}",
            )
        yield from _template_problems(spec.get("template") or {}, selector)
        yield from at_least_zero("spec.replicas", spec.get("replicas", 0))
        if self._kind == "Deployment":
            yield from _deployment_problems(spec)
        if old is not None:
            yield from unchanged("spec.selector", selector, old["spec"].get("selector"))

    def warnings(self, obj: Obj) -> Iterable[str]:
        namespace = self._store.bucket("namespaces").get(("", obj["metadata"]["namespace"])) or {
            "metadata": {}
        }
        labels = namespace["metadata"].get("labels") or {}
        pod = (obj["spec"].get("template") or {}).get("spec") or {}
        for mode in ("enforce", "warn"):
            level = labels.get(pod_security.PREFIX + mode, "privileged")
            broken = pod_security.violations(level, pod)
            if broken:
                yield f'would violate PodSecurity "{level}:latest": ' + ", ".join(broken)
                return


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _annotate(obj: Obj, generation: str) -> None:
    """Record on a DaemonSet how often its template has changed."""
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), _TEMPLATE_GENERATION: generation}


def _default_rolling(spec: Obj, field: str, **limits: int | str) -> None:
    """Set the defaults of a workload's update strategy; ``limits`` are those of rollingUpdate."""
    strategy = spec.setdefault(field, {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), **limits)


def _template_problems(template: Obj, selector: Obj | None) -> Iterator[Cause]:
    """Return the problems of a pod template that ``selector`` must match."""
    labels = (template.get("metadata") or {}).get("labels")
    yield from label_problems(labels or {}, "spec.template.metadata.labels")
    yield from invalid_if(
        not object_selector(selector)(labels or {}),
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
    if "spec" in template:
        pod = template["spec"]
        yield from pod_spec_problems(pod, "spec.template.spec")
        yield from one_of("spec.template.spec.restartPolicy", pod.get("restartPolicy"), ("Always",))
    else:
        yield required("spec.template.spec.containers")


def _deployment_problems(spec: Obj) -> Iterator[Cause]:
    strategy = spec["strategy"]
    if strategy["type"] not in {"Recreate", "RollingUpdate"}:
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
        yield unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field("spec.strategy.rollingUpdate", detail)
    elif strategy["type"] == "RollingUpdate":
        yield from _rolling_problems(strategy["rollingUpdate"])
    deadline = spec["progressDeadlineSeconds"]
    yield from invalid_if(
        deadline <= spec.get("minReadySeconds", 0),
        "spec.progressDeadlineSeconds",
        deadline,
        "must be greater than minReadySeconds",
    )


def _rolling_problems(rolling: Obj) -> Iterator[Cause]:
    """Return the problems of a Deployment's update strategy."""
    at = "spec.strategy.rollingUpdate"
    for name in ("maxUnavailable", "maxSurge"):
        value = rolling[name]
        if isinstance(value, str) and not _PERCENT.match(value):
            detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex"
            yield invalid_value(
                f"{at}.{name}", value, f"{detail} used for validation is '[0-9]+%')"
            )
        elif isinstance(value, int):
            yield from at_least_zero(f"{at}.{name}", value)
    yield from invalid_if(
        all(str(rolling[name]) in {"0", "0%"} for name in ("maxUnavailable", "maxSurge")),
        f"{at}.maxUnavailable",
        rolling["maxUnavailable"],
        "may not be 0 when `maxSurge` is 0",
    )
