"""A pod that did not become ready: what that says about the cluster, and when it says nothing."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.kube.client import Obj
from conformance.kube.waits import PULL_TROUBLE, hopeless, pod_state

OWN = frozenset({*PULL_TROUBLE, "CrashLoopBackOff", "RunContainerError", "CreateContainerError"})
"""What containers wait for whose image or program is wrong; the pod's network was there before."""


def own_fault(pod: Obj) -> str:
    """What is wrong with a pod's own image or program, which container and how it ended; empty: nothing is."""
    problem = hopeless(pod)
    if problem:
        return problem
    status = pod.get("status") or {}
    for one in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state, again = one.get("state") or {}, int(one.get("restartCount") or 0)
        waiting = str((state.get("waiting") or {}).get("reason") or "")
        ended = state.get("terminated") or (one.get("lastState") or {}).get("terminated")
        words = [waiting] if waiting in OWN else []
        if ended is not None:
            words.append(f"ended with exit code {ended.get('exitCode')} ({ended.get('reason') or 'no reason given'})")
        if again:
            words.append(f"restarted {again} {'time' if again == 1 else 'times'}")
        if words:
            return f"container {one.get('name')} {', '.join(words)}"
    return ""


def verdict_on(pods: Sequence[Obj], error: EnvironmentBroken, claims: Sequence[str], because: str) -> Exception:
    """The exception that a test about starting raises for pods that did not become ready (``error``).

    A Nonconformance when the late pod has its node and nothing of the suite itself is wrong, so that only the cluster
    can be the cause; otherwise EnvironmentBroken, the error itself where no more is known.
    """
    for pod in pods:
        fault = own_fault(pod)
        if fault:
            return EnvironmentBroken(f"{_head(pod, claims)} {fault} (1 try), which says nothing about it: {error}")
    late = [pod for pod in pods if str(pod["metadata"]["name"]) in str(error)]
    if not late or not late[0]["spec"].get("nodeName"):
        return error
    return Nonconformance(f"{_head(late[0], claims)} {pod_state(late[0])} (1 try): {error}\n  because  {because}")


def _head(pod: Obj, claims: Sequence[str]) -> str:
    meta, node = pod["metadata"], pod["spec"].get("nodeName") or "none yet"
    where = f"{meta.get('namespace')}/{meta['name']} (node {node})"
    return f"{', '.join(claims) or 'no claim'}  {where}  expected Ready, observed"
