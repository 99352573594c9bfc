"""Every fault as a user meets it: injected from outside, felt by commands run in pods, gone when it is healed.

The kernel tests next door show each mechanism; these show that one lab, put together, obeys its control socket and its
command.  Every effect is seen before (absent), during (present) and after (absent again).
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hybridlab.cli.kubeconfig import lab_of
from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("faults-bite"),
]

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
WRONG_ADDRESS = "203.0.113.9"
NOT_ENFORCED_ON = "linux-2"
SETTLED_WITHIN = 10.0
"""Seconds; far above what it takes, so that only a change that never comes is caught."""


def pod(name: str, node: str, image: str = AGNHOST, arguments: str = "[netexec, --http-port=8080]") -> str:
    """A pod on a node; agnhost tells its clients which address they came from."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: "{image}", args: {arguments}}}]
---
"""


PODS = (
    pod("client", "linux-1", "busybox:1.36", '[sleep, "36000"]')
    + pod("near", "linux-2")
    + pod("far", "linux-3")
    + pod("windows", "windows-2022")
)
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: near, namespace: default}
spec: {selector: {app: near}, ports: [{port: 80, targetPort: 8080}]}
"""
DENY_ALL = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@dataclass
class Town:
    """A lab with the pods that the faults are felt by."""

    lab: RunningLab
    control: Path
    addresses: dict[str, str] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """A pod's address."""
        if name not in self.addresses:
            self.addresses[name] = self.lab.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}").stdout
        return self.addresses[name]

    def run(self, *command: str, pod: str = "client") -> subprocess.CompletedProcess[str]:
        """A command in a pod."""
        return self.lab.kubectl("exec", pod, "--", *command, check=False)

    def fetch(self, host: str) -> str | None:
        """The client's address as the server at ``host`` sees it; None: no answer within a second."""
        done = self.run("wget", "-T", "1", "-qO-", f"http://{host}/clientip")
        return done.stdout.rpartition(":")[0] if done.returncode == 0 else None

    def reaches(self, name: str) -> bool:
        """Whether the client gets an answer from a pod at its address."""
        return self.fetch(f"{self.address(name)}:8080") is not None

    def ask(self, **request: Any) -> Any:
        """One request over the control socket; its result."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                answer = json.loads(stream.readline())
        assert answer["ok"], answer
        return answer["result"]

    @contextmanager
    def fault(self, name: str, **parameters: str) -> Iterator[str]:
        """Inject over the control socket, heal on leaving."""
        identity = self.ask(op="inject", fault=name, parameters=parameters)["id"]
        try:
            yield identity
        finally:
            self.ask(op="heal", id=identity)

    @contextmanager
    def deny_all(self) -> Iterator[None]:
        """No pod of the namespace may be reached; back to open, and seen so, on leaving."""
        self.lab.kubectl("apply", "-f", "-", stdin=DENY_ALL)
        try:
            yield
        finally:
            self.lab.kubectl("delete", "networkpolicy", "deny")
            self.eventually("far", reached=True)

    def eventually(self, name: str, *, reached: bool) -> None:
        """Wait until a pod is, or is not, reached."""
        deadline = time.monotonic() + SETTLED_WITHIN
        while self.reaches(name) != reached:
            assert time.monotonic() < deadline, f"{name} is {'not ' if reached else ''}reached"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with running_lab(tmp_path_factory.mktemp("faults")) as lab:
        lab.kubectl("apply", "-f", "-", stdin=PODS + SERVICE)
        lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        directory = lab_of(lab.kubeconfig)
        assert directory is not None
        yield Town(lab, directory / "control.sock")


def test_a_dropped_vxlan_port_cuts_nodes_off_and_the_command_heals_it(town: Town) -> None:
    assert town.reaches("near")
    config = ("--kubeconfig", str(town.lab.kubeconfig))
    injected = town.lab.hybridlab("faults", *config, "inject", "udp4789-dropped", "scope=node", "node=linux-2")
    assert injected.returncode == 0, injected.stderr
    identity = injected.stdout.strip()
    try:
        assert identity in town.lab.hybridlab("faults", *config, "active").stdout
        assert identity in town.lab.hybridlab("status", *config).stdout
        assert not town.reaches("near")
        assert town.reaches("far")
    finally:
        healed = town.lab.hybridlab("faults", *config, "heal", identity)
    assert healed.returncode == 0, healed.stderr
    assert town.reaches("near")
    assert town.lab.hybridlab("faults", *config, "active").stdout == ""


def test_a_node_that_does_not_enforce_policy_lets_everything_in(town: Town) -> None:
    with town.deny_all():
        town.eventually("near", reached=False)
        with town.fault("policy-not-enforced", node=NOT_ENFORCED_ON):
            assert town.reaches("near")
            assert not town.reaches("far")
        assert not town.reaches("near")


def test_policy_that_is_late_takes_effect_later(town: Town) -> None:
    with town.fault("policy-late", node="linux-2", seconds="600"), town.deny_all():
        town.eventually("far", reached=False)
        assert town.reaches("near")
    with town.deny_all():
        town.eventually("near", reached=False)


def test_a_reprogrammed_windows_pod_has_no_new_connections(town: Town) -> None:
    with town.fault("no-reset-recovery", node="windows-2022"):
        assert town.reaches("windows")
        with town.deny_all():
            town.eventually("near", reached=False)
        town.eventually("near", reached=True)
        assert not town.reaches("windows")
    assert town.reaches("windows")


def test_a_windows_pod_keeps_its_acl_list_whatever_policy_says(town: Town) -> None:
    with town.fault("acl-not-replaced"), town.deny_all():
        town.eventually("near", reached=False)
        assert town.reaches("windows")
    with town.deny_all():
        town.eventually("windows", reached=False)


def test_a_felix_that_was_killed_does_not_come_back(town: Town) -> None:
    def felix_pod() -> str:
        found = town.lab.kubectl(
            "get", "pods", "-n", "calico-system", "-l", "k8s-app=calico-node-windows",
            "--field-selector=spec.nodeName=windows-2022,status.phase=Running", "-o", "name",
        )  # fmt: skip
        return found.stdout.strip()

    with town.fault("felix-never-restarts", node="windows-2022"):
        before = felix_pod()
        town.lab.kubectl("delete", "-n", "calico-system", before)
        deadline = time.monotonic() + SETTLED_WITHIN
        while felix_pod() in {"", before}:
            assert time.monotonic() < deadline, "the pod does not come back"
        with town.deny_all():
            town.eventually("near", reached=False)
            assert town.reaches("windows")
    with town.deny_all():
        town.eventually("windows", reached=False)


def test_a_new_windows_pod_is_open_until_it_is_programmed(town: Town) -> None:
    with town.deny_all():
        town.eventually("near", reached=False)
        with town.fault("open-before-policy", node="windows-2019", seconds="600"):
            town.lab.kubectl("apply", "-f", "-", stdin=pod("young", "windows-2019"))
            town.lab.kubectl("wait", "--for=condition=Ready", "pod/young", "--timeout=20s")
            assert town.reaches("young")
        town.eventually("young", reached=False)
        town.lab.kubectl("delete", "pod", "young")


HOLD = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 8080), 5)
print("connected", flush=True)
connection.settimeout(float(sys.argv[2]))
try:
    connection.recv(1)
except TimeoutError:
    print("kept")
except ConnectionResetError:
    print("reset")
"""


def test_linux_pods_connections_are_reset_with_their_policy(town: Town) -> None:
    def held_through_a_policy(seconds: str) -> str:
        command = ["exec", "holder", "--", "python3", "-c", HOLD, town.address("near"), seconds]
        arguments = ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), *command]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as holding:
            assert holding.stdout is not None
            assert holding.stdout.readline() == "connected\n"
            with town.deny_all():
                town.eventually("near", reached=False)
                return holding.stdout.readline().strip()

    town.lab.kubectl("apply", "-f", "-", stdin=pod("holder", "linux-1", "python:3.12", '[sleep, "36000"]'))
    town.lab.kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=20s")
    with town.fault("rst-storm-linux"):
        assert held_through_a_policy("20") == "reset"
    assert held_through_a_policy("2") == "kept"
    town.lab.kubectl("delete", "pod", "holder")


def test_names_are_answered_wrongly(town: Town) -> None:
    assert town.fetch("near") is not None
    with town.fault("dns-wrong"):
        assert WRONG_ADDRESS in town.run("nslookup", "near.default.svc.cluster.local").stdout
        assert town.fetch("near") is None
    assert WRONG_ADDRESS not in town.run("nslookup", "near.default.svc.cluster.local").stdout
    assert town.fetch("near") is not None


def test_questions_for_names_are_not_answered(town: Town) -> None:
    with town.fault("dns-silent", node="linux-1"):
        done = town.run("timeout", "2", "nslookup", "near.default.svc.cluster.local")
        assert "Name:" not in done.stdout
        assert done.returncode != 0
        assert town.reaches("near")
    assert town.fetch("near") is not None


def test_names_are_answered_late_on_one_node(town: Town) -> None:
    def seconds() -> float:
        begun = time.monotonic()
        assert "Name:" in town.run("nslookup", "near.default.svc.cluster.local").stdout
        return time.monotonic() - begun

    with town.fault("dns-slow", node="linux-1", seconds="1"):
        assert seconds() >= 1
    with town.fault("dns-slow", node="linux-2", seconds="60"):
        assert seconds() < 60


def test_a_service_has_no_backend_on_one_node(town: Town) -> None:
    with town.fault("service-backend-missing", service="default/near", node="linux-1"):
        assert town.fetch("near") is None
        assert town.reaches("near")
    assert town.fetch("near") is not None


def test_pod_to_pod_traffic_has_another_source(town: Town) -> None:
    own = town.address("client")
    assert town.fetch(f"{town.address('near')}:8080") == own
    with town.fault("snat-pod-to-pod", node="linux-1"):
        seen = town.fetch(f"{town.address('near')}:8080")
        assert seen not in {None, own}
    assert town.fetch(f"{town.address('near')}:8080") == own


def test_a_windows_pod_gets_an_address_that_windows_reserves(town: Town) -> None:
    def address_of_a_new_pod(name: str) -> str:
        town.lab.kubectl("apply", "-f", "-", stdin=pod(name, "windows-2019"))
        town.lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
        address = town.lab.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}").stdout
        town.lab.kubectl("delete", "pod", name)
        return address

    def offset(address: str) -> int:
        return int(address.rpartition(".")[2]) % 64

    assert offset(address_of_a_new_pod("before")) >= 3
    with town.fault("reserved-not-reserved", node="windows-2019"):
        assert offset(address_of_a_new_pod("during")) == 2
    assert offset(address_of_a_new_pod("after")) >= 3


def test_exec_answers_without_output(town: Town) -> None:
    command = ("sh", "-c", "echo spoken; exit 3")
    assert (town.run(*command).stdout, town.run(*command).returncode) == ("spoken\n", 3)
    with town.fault("exec-empty-output"):
        done = town.run(*command)
        assert (done.stdout, done.returncode) == ("", 3)
    assert town.run(*command).stdout == "spoken\n"


def test_exec_loses_the_exit_status(town: Town) -> None:
    command = ("sh", "-c", "echo spoken; exit 3")
    with town.fault("exec-loses-status"):
        done = town.run(*command)
        assert done.stdout == "spoken\n"
        assert done.returncode != 3
    assert town.run(*command).returncode == 3


def test_exec_answers_with_half_of_its_output(town: Town) -> None:
    with town.fault("exec-half-output"):
        assert town.run("sh", "-c", "printf spoken").stdout == "spo"
    assert town.run("sh", "-c", "printf spoken").stdout == "spoken"


def test_exec_hangs_and_goes_on_when_it_is_healed(town: Town) -> None:
    done: list[str] = []
    with town.fault("exec-hangs", namespace="default", pod="client"):
        waiting = threading.Thread(target=lambda: done.append(town.run("echo", "late").stdout))
        waiting.start()
        assert town.run("hostname", pod="near").returncode == 0
        assert not done
    waiting.join(SETTLED_WITHIN)
    assert done == ["late\n"]


def test_an_exec_that_is_cut_has_no_status(town: Town) -> None:
    with town.fault("exec-cut", first="1"):
        cut = town.run("sh", "-c", "echo spoken; sleep 5; exit 3")
        assert (cut.stdout, cut.returncode) == ("", 1)
        assert town.run("sh", "-c", "exit 3").returncode == 3


def test_a_program_is_missing(town: Town) -> None:
    with town.fault("exec-missing-binary", node="linux-1"):
        done = town.run("hostname")
        assert 'exec: "hostname": executable file not found in $PATH' in done.stderr
        assert done.returncode != 0
        assert town.run("hostname", pod="near").returncode == 0
    assert town.run("hostname").returncode == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "exec-dial-fails",
            r"Internal error occurred: error dialing backend: dial tcp 10\.0\.0\.\d+:10250: i/o timeout",
        ),
        (
            "exec-start-times-out",
            "failed to start exec: hcs::System::CreateProcess [0-9a-f]{64}: The wait operation timed out.: unknown",
        ),
    ],
)
def test_an_exec_fails_after_the_upgrade_once_and_then_works(town: Town, fault: str, words: str) -> None:
    with town.fault(fault, node="windows-2022", first="1"):
        refused = town.run("hostname", pod="windows")
        assert re.search(words, refused.stderr), refused.stderr
        assert refused.returncode == 1
        assert town.run("hostname", pod="windows").returncode == 0, "the next try succeeds"


def test_another_program_answers(town: Town) -> None:
    with town.fault("exec-wrong-binary", program="hostname"):
        done = town.run("sh", "-c", "exit 3")
        assert (done.stdout, done.returncode) == ("client\n", 0)
    assert town.run("sh", "-c", "exit 3").returncode == 3


def test_a_command_is_killed(town: Town) -> None:
    with town.fault("exec-killed"):
        assert town.run("sleep", "60").returncode == 137
    assert "sleep 60" not in town.run("ps").stdout


def test_what_policy_denies_is_refused(town: Town) -> None:
    def why() -> str:
        return town.run("wget", "-T", "1", "-qO-", f"http://{town.address('near')}:8080/").stderr

    with town.deny_all():
        town.eventually("near", reached=False)
        assert "refused" not in why()
        with town.fault("policy-refuses", node="linux-2"):
            assert "refused" in why()
            assert not town.reaches("far")
        with town.fault("policy-refuses", node="linux-2", **{"with": "icmp"}):
            assert "timed out" not in why()
            assert not town.reaches("near")
        assert "refused" not in why()


def test_a_container_is_killed_and_started_again(town: Town) -> None:
    def restarts() -> str:
        path = "jsonpath={.status.containerStatuses[0].restartCount}"
        return town.lab.kubectl("get", "pod", "far", "-o", path).stdout

    before = int(restarts())
    with town.fault("pod-restarts", pod="default/far"):
        deadline = time.monotonic() + SETTLED_WITHIN
        while int(restarts()) == before:
            assert time.monotonic() < deadline, "it was not started again"
    town.eventually("far", reached=True)


@pytest.mark.parametrize(("fault", "code"), [("api-429", 429), ("api-500", 500)])
def test_the_api_refuses_requests_for_a_while(town: Town, fault: str, code: int) -> None:
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(str(town.lab.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.retries = False
    api = client.CoreV1Api(client.ApiClient(configuration))
    with town.fault(fault, seconds="600"):
        with pytest.raises(client.ApiException) as refused:
            api.list_node()
        assert refused.value.status == code
        assert bool((refused.value.headers or {}).get("Retry-After")) == (code == 429)
    with town.fault(fault, seconds="600", namespace="elsewhere"):
        assert len(api.list_node().items) == 6
    assert len(api.list_node().items) == 6


def test_nobody_reaches_the_api_for_a_while_and_open_watches_are_cut(town: Town) -> None:
    watching = subprocess.Popen(
        ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", "/api/v1/nodes?watch=true"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert watching.stdout
    assert watching.stdout.readline()
    with town.fault("api-unreachable", seconds="600"):
        watching.communicate(timeout=20)  # ends only because it was cut
        assert town.lab.kubectl("get", "--raw", "/readyz", check=False).returncode != 0
    assert town.lab.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_a_watch_falls_silent_stays_open_and_the_next_one_speaks(town: Town) -> None:
    def watch(seconds: int) -> subprocess.Popen[str]:
        path = f"/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds={seconds}"
        command = ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", path]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    silent = watch(2)
    assert silent.stdout
    assert silent.stdout.readline(), "it speaks at first"
    try:
        with town.fault("watch-silent", namespace="default"):
            town.lab.kubectl("create", "configmap", "unheard")
            assert "unheard" in town.lab.kubectl("get", "configmaps").stdout, "a list says it"
            time.sleep(3)
            assert silent.poll() is None, "its own time is over, and it is not closed"
        time.sleep(0.5)
        assert silent.poll() is None, "a connection that was forgotten stays so"
    finally:
        silent.kill()
        rest, _ = silent.communicate(timeout=10)
    assert "unheard" not in rest
    speaking = watch(1)
    heard, _ = speaking.communicate(timeout=20)
    town.lab.kubectl("delete", "configmap", "unheard")
    assert "unheard" in heard


def test_only_so_many_watches_fall_silent(town: Town) -> None:
    path = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1"
    with town.fault("watch-silent", namespace="default", first="1"):
        first = subprocess.Popen(
            ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), "get", "--raw", path],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            time.sleep(2)
            assert first.poll() is None
            assert town.lab.kubectl("get", "--raw", path).returncode == 0, "the second one ends in time"
        finally:
            first.kill()
            first.wait(timeout=10)


def events_of(town: Town, name: str) -> list[str]:
    fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
    return town.lab.kubectl(
        "get", "events", "--field-selector", fields, "-o", "jsonpath={.items[*].reason}"
    ).stdout.split()


def state_of(town: Town, name: str) -> Any:
    return json.loads(town.lab.kubectl("get", "pod", name, "-o", "json").stdout).get("status", {})


def eventually_running(town: Town, name: str) -> None:
    town.lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    town.lab.kubectl("delete", "pod", name)


def test_a_ready_node_takes_no_note_of_a_pod(town: Town) -> None:
    with town.fault("kubelet-idle", node="linux-3"):
        town.lab.kubectl("apply", "-f", "-", stdin=pod("unnoticed", "linux-3") + pod("noticed", "linux-2"))
        town.lab.kubectl("wait", "--for=condition=Ready", "pod/noticed", "--timeout=30s")
        status = state_of(town, "unnoticed")
        assert "startTime" not in status
        assert "containerStatuses" not in status
        assert events_of(town, "unnoticed") == []
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        assert town.lab.kubectl("get", "node", "linux-3", "-o", ready).stdout == "True"
    eventually_running(town, "unnoticed")
    town.lab.kubectl("delete", "pod", "noticed")


def test_a_pod_that_nobody_took_note_of_can_be_removed_by_force(town: Town) -> None:
    with town.fault("kubelet-idle", node="linux-3"):
        town.lab.kubectl("apply", "-f", "-", stdin=pod("unnoticed", "linux-3"))
        town.lab.kubectl("delete", "pod", "unnoticed", "--force", "--grace-period=0")
    assert town.lab.kubectl("get", "pod", "unnoticed", check=False).returncode == 1


def test_an_image_is_being_pulled_without_end(town: Town) -> None:
    with town.fault("image-pull-stalls", node="linux-3"):
        town.lab.kubectl("apply", "-f", "-", stdin=pod("pulling", "linux-3", "nginx:1.25", "[]"))
        deadline = time.monotonic() + SETTLED_WITHIN
        while "Pulling" not in events_of(town, "pulling"):
            assert time.monotonic() < deadline
        time.sleep(0.5)
        assert "Pulled" not in events_of(town, "pulling")
        (container,) = state_of(town, "pulling")["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert "startTime" in state_of(town, "pulling")
    eventually_running(town, "pulling")
    assert "Pulled" in events_of(town, "pulling")


def test_a_wrong_fault_is_refused_and_nothing_is_active(town: Town) -> None:
    config = ("--kubeconfig", str(town.lab.kubeconfig))
    for arguments, expected in (
        (["nonsense"], "there is no fault 'nonsense'"),
        (["policy-not-enforced", "node=nowhere"], "nowhere"),
        (["policy-late", "seconds=soon"], "soon"),
        (["udp4789-dropped", "scope"], "KEY=VALUE"),
    ):
        done = town.lab.hybridlab("faults", *config, "inject", *arguments)
        assert (done.returncode, expected in done.stderr) == (4, True), done.stderr
    assert town.ask(op="active") == []


def test_faults_injected_at_once_are_all_healed_at_once(town: Town) -> None:
    injected: list[str] = []

    def inject(name: str, parameters: dict[str, str]) -> None:
        injected.append(town.ask(op="inject", fault=name, parameters=parameters)["id"])

    threads = [
        threading.Thread(target=inject, args=item)
        for item in [(name, dict[str, str]()) for name in ("udp4789-dropped", "dns-wrong", "exec-loses-status")]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(item["id"] for item in town.ask(op="active")) == sorted(injected)
    assert len(injected) == 3
    town.ask(op="heal-all")
    assert town.ask(op="active") == []
    assert town.fetch("near") is not None
