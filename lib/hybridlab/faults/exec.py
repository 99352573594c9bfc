"""Faults of ``kubectl exec``: the command does not start, dies, is another one, or what it says does not arrive."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.api.contract import Obj
from hybridlab.api.exec_faults import ExecFault, Scope
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, Parameter, count
from hybridlab.runtime import start_errors

PARAMETERS = (
    Parameter(name="node", meaning="only execs in pods of this node", default=""),
    Parameter(name="namespace", meaning="only execs in pods of this namespace", default=""),
    Parameter(name="pod", meaning="only execs in pods of this name", default=""),
    Parameter(name="first", meaning="only so many execs (0: all)", default="0"),
)


KUBELET_PORT = 10250


class ExecFailure(Fault):
    """Execs of a scope go wrong in one way."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str], kind: str) -> None:
        self._lab, self._faults, self._identity = lab, lab.interference.execs, identity
        if parameters["node"]:
            lab.node(parameters["node"])
        scope = Scope(node=parameters["node"], namespace=parameters["namespace"], pod=parameters["pod"])
        self._wrong = ExecFault(
            kind=kind,
            scope=scope,
            first=count("first", parameters["first"]),
            argv=tuple(parameters.get("program", "").split()),
            start_error=self._start_error,
        )

    async def inject(self) -> None:
        """Begin.  Raises BadFault while another exec fault may concern the same execs."""
        try:
            self._faults.put(self._identity, self._wrong)
        except ValueError as error:
            raise BadFault(str(error)) from None

    async def heal(self) -> None:
        """End; execs that hung go on."""
        self._faults.heal(self._identity)

    async def evidence(self) -> list[str]:
        """How execs end now."""
        fault = self._faults.active.get(self._identity)
        if fault is None:
            return []
        limit = f" of the first {fault.first}" if fault.first else ""
        return [f"exec: {fault.kind} ({fault.scope}); {len(fault.caught)}{limit} caught"]

    def _start_error(self, pod: Obj, container: str, argv: tuple[str, ...]) -> str:
        machine = self._lab.calico.nodes[pod["spec"]["nodeName"]]
        if self._wrong.kind == "dial-fails":
            return f"error dialing backend: dial tcp {machine.address}:{KUBELET_PORT}: i/o timeout"
        system = machine.os
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        identity = next(
            (str(status.get("containerID") or "") for status in statuses if status["name"] == container), ""
        )
        if self._wrong.kind == "start-times-out":
            return start_errors.exec_timed_out(system, identity.rpartition("/")[2])
        return start_errors.exec_failed(system, identity.rpartition("/")[2], argv)


def exec_hangs(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Commands are not started; of those that run nothing arrives any more."""
    return ExecFailure(lab, identity, parameters, "hang")


def exec_empty_output(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Nothing that a command writes arrives; its exit status does."""
    return ExecFailure(lab, identity, parameters, "empty-output")


def exec_half_output(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Only the first half of each piece that a command writes arrives."""
    return ExecFailure(lab, identity, parameters, "half-output")


def exec_loses_status(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """What a command writes arrives; how it ended does not."""
    return ExecFailure(lab, identity, parameters, "lost-status")


def exec_cut(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The connection is cut at a command's next output."""
    return ExecFailure(lab, identity, parameters, "cut")


def exec_missing_binary(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """There is no such program."""
    return ExecFailure(lab, identity, parameters, "missing-binary")


def exec_dial_fails(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The API server upgrades the connection, and then says that it does not reach the kubelet."""
    return ExecFailure(lab, identity, parameters, "dial-fails")


def exec_start_times_out(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The runtime gives up starting the command."""
    return ExecFailure(lab, identity, parameters, "start-times-out")


def exec_wrong_binary(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Another program answers."""
    if not parameters["program"].split():
        raise BadFault("program is empty, expected a command that the pods' images have")
    return ExecFailure(lab, identity, parameters, "wrong-binary")


def exec_killed(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The command is killed as soon as it runs, or is given input."""
    return ExecFailure(lab, identity, parameters, "killed")
