# SPDX-License-Identifier: Apache-2.0
"""Faults of ``kubectl exec``: the command does not start, dies, is another command, or its output
does not arrive.
"""

from collections.abc import Mapping

from hybridlab.api.contract import Obj
from hybridlab.api.exec_faults import ExecFault, Scope
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, FaultType, Parameter, count, seconds
from hybridlab.runtime import start_errors

PARAMETERS = (
    Parameter("node", "only execs in pods of this node", ""),
    Parameter("namespace", "only execs in pods of this namespace", ""),
    Parameter("pod", "only execs in pods with this name", ""),
    Parameter("first", "maximum number of execs (0: all)", "0"),
)


KUBELET_PORT = 10250


class ExecFailure(Fault):
    """Execs in the pods of a scope fail in one way."""

    def __init__(
        self, lab: LabParts, identity: str, parameters: Mapping[str, str], kind: str
    ) -> None:
        self._lab = lab
        self._faults = lab.interference.execs
        self._identity = identity
        if parameters["node"]:
            lab.node(parameters["node"])
        if not parameters.get("program", "hostname").split():
            raise BadFault("program is empty, expected a program that the pods' images contain")
        scope = Scope(
            node=parameters["node"], namespace=parameters["namespace"], pod=parameters["pod"]
        )
        self._wrong = ExecFault(
            kind=kind,
            scope=scope,
            first=count("first", parameters["first"]),
            argv=tuple(parameters[name] for name in ("words", "instead") if name in parameters)
            or tuple(parameters.get("program", "").split()),
            seconds=seconds("seconds", late) if (late := parameters.get("seconds")) else 0.0,
            start_error=self._start_error,
        )

    async def inject(self) -> None:
        """Make execs fail from now on. Raise BadFault if another exec fault may affect the same
        execs."""
        try:
            self._faults.put(self._identity, self._wrong)
        except ValueError as error:
            raise BadFault(str(error)) from None

    async def heal(self) -> None:
        """Remove the failure; execs that hung continue."""
        self._faults.heal(self._identity)

    async def evidence(self) -> list[str]:
        fault = self._faults.active.get(self._identity)
        if fault is None:
            return []
        limit = f" of the first {fault.first}" if fault.first else ""
        return [f"exec: {fault.kind} ({fault.scope}); execs affected: {len(fault.caught)}{limit}"]

    def _start_error(self, pod: Obj, container: str, argv: tuple[str, ...]) -> str:
        machine = self._lab.calico.nodes[pod["spec"]["nodeName"]]
        if self._wrong.kind == "dial-fails":
            return f"error dialing backend: dial tcp {machine.address}:{KUBELET_PORT}: i/o timeout"
        system = machine.os
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        identity = next(
            (
                str(status.get("containerID") or "")
                for status in statuses
                if status["name"] == container
            ),
            "",
        )
        if self._wrong.kind == "start-times-out":
            return start_errors.exec_timed_out(system, identity.rpartition("/")[2])
        return start_errors.exec_failed(system, identity.rpartition("/")[2], argv)


def _failure(name: str, kind: str, description: str, *more: Parameter) -> FaultType:
    def make(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
        return ExecFailure(lab, identity, parameters, kind)

    return FaultType(
        name=name,
        layer="exec",
        scope="all, node, namespace, pod",
        description=description,
        parameters=(*PARAMETERS, *more),
        make=make,
    )


TYPES = (
    _failure("exec-hangs", "hang", "No exec is started, and the output of running execs is lost"),
    _failure("exec-empty-output", "empty-output", "An exec returns its exit status, but no output"),
    _failure("exec-half-output", "half-output", "Only the first half of each piece of a command's output arrives"),
    _failure("exec-loses-status", "lost-status", "An exec ends without the command's exit status"),
    _failure("exec-cut", "cut", "The connection of an exec is cut at its next output"),
    _failure("exec-missing-binary", "missing-binary", "An exec reports that its program does not exist"),
    _failure(
        "exec-dial-fails", "dial-fails",
        "The API server upgrades the connection and then reports that it cannot reach the kubelet",
    ),
    _failure("exec-start-times-out", "start-times-out", "The runtime reports that it could not start the command in time"),
    _failure(
        "exec-wrong-binary", "wrong-binary", "Another program runs instead of the requested program",
        Parameter("program", "the program that runs instead", "hostname"),
    ),
    _failure("exec-slow", "slow", "Commands start late", Parameter("seconds", "delay in seconds")),
    _failure(
        "exec-other-words", "other-words", "Certain words in the output of commands are replaced",
        Parameter("words", "the words to replace, such as ConnectionRefused/10061"),
        Parameter("instead", "the words that replace them"),
    ),
    _failure("exec-killed", "killed", "A command is killed as soon as it runs or receives input"),
)  # fmt: skip
"""Faults of execs."""
