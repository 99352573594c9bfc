# SPDX-License-Identifier: Apache-2.0
"""The speed of the embedded lab: start, pods, exec, API, faults. ``python -m benchmarks.lab
[--quick]``.

Prints a Markdown table for docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml
from kubernetes import client, config, watch

from benchmarks import machine
from benchmarks.exec_client import exec_once
from benchmarks.lab_process import Lab, lab
from benchmarks.policy_to_packets import seconds_to_packets

ROOT = Path(__file__).parents[1]
NAMESPACE = "benchmark"
BUILD: dict[str, dict[str, str]] = {
    "linux": {},
    "windows": {"node.kubernetes.io/windows-build": "10.0.20348"},
}


def api(cluster: Lab) -> client.CoreV1Api:
    configuration = client.Configuration()
    config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    return client.CoreV1Api(client.ApiClient(configuration))


def until_running(core: client.CoreV1Api, namespace: str, count: int, start: float) -> float:
    """Return the seconds from ``start`` until a watch shows ``count`` Running and Ready pods in the
    namespace."""
    running: set[str] = set()
    for event in watch.Watch().stream(core.list_namespaced_pod, namespace, timeout_seconds=60):
        pod = event["raw_object"]
        conditions = {
            entry["type"]: entry["status"] for entry in pod["status"].get("conditions", [])
        }
        if pod["status"].get("phase") == "Running" and conditions.get("Ready") == "True":
            running.add(pod["metadata"]["name"])
        if len(running) >= count:
            return time.perf_counter() - start
    raise SystemExit(f"only {len(running)} of {count} pods were Running after 60 s")


def start_up(rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        with lab() as cluster:
            found.append(cluster.ready_seconds)
    return found


def demo_pods(rounds: int) -> list[float]:
    documents = [
        document
        for path in sorted((ROOT / "docs" / "examples").glob("policy-demo-pods.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    found = []
    for _ in range(rounds):
        with lab() as cluster:
            core = api(cluster)
            start = time.perf_counter()
            for document in documents:
                if document["kind"] == "Namespace":
                    core.create_namespace(document)
                else:
                    core.create_namespaced_pod(document["metadata"]["namespace"], document)
            pods = sum(document["kind"] == "Pod" for document in documents)
            found.append(until_running(core, "calico-demo", pods, start))
    return found


def many_pods(core: client.CoreV1Api, linux: int, windows: int) -> float:
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    start = time.perf_counter()
    for number in range(linux + windows):
        system, image = ("linux", "docker.io/library/busybox:1.37")
        if number >= linux:
            system, image = ("windows", "mcr.microsoft.com/windows/servercore:ltsc2022")
        command = (
            ["powershell", "-Command", "Start-Sleep 360000"]
            if system == "windows"
            else ["sleep", "360000"]
        )
        core.create_namespaced_pod(
            NAMESPACE,
            {
                "metadata": {"name": f"{system}-{number}"},
                "spec": {
                    "os": {"name": system},
                    "nodeSelector": {"kubernetes.io/os": system, **BUILD[system]},
                    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{"name": "main", "image": image, "command": command}],
                },
            },
        )
    return until_running(core, NAMESPACE, linux + windows, start)


def memory(cluster: Lab) -> float:
    """Return the proportional set size of all processes of the lab, in MiB."""
    top = psutil.Process(cluster.process.pid)
    return (
        sum(process.memory_full_info().pss for process in [top, *top.children(recursive=True)])
        / 2**20
    )


def timed(action: Callable[[], Any], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return found


def reads_per_second(core: client.CoreV1Api, seconds: float) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        core.read_namespace("default")
        count += 1
    return count / (time.perf_counter() - start)


def fault(cluster: Lab) -> tuple[list[float], list[float]]:
    """Return the seconds to inject and heal a fault by the command line, including the start of the
    command, and by the control socket."""
    command = [sys.executable, "-m", "hybridlab", "faults", "--kubeconfig", str(cluster.kubeconfig)]
    over_cli, over_socket = [], []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(
            [*command, "inject", "udp4789-dropped"], check=True, stdout=subprocess.DEVNULL
        )
        over_cli.append(time.perf_counter() - start)
        subprocess.run([*command, "heal"], check=True)
    import socket  # needed only here

    directory = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["extensions"][
        0
    ]["extension"]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{directory['directory']}/control.sock")
        stream = connection.makefile("rwb")
        for _ in range(20):
            start = time.perf_counter()
            stream.write(b'{"op": "inject", "fault": "udp4789-dropped", "parameters": {}}\n')
            stream.flush()
            assert json.loads(stream.readline())["ok"]
            over_socket.append(time.perf_counter() - start)
            stream.write(b'{"op": "heal-all"}\n')
            stream.flush()
            assert json.loads(stream.readline())["ok"]
    return over_cli, over_socket


def row(what: str, target: str, values: list[float], unit: str = "s", scale: float = 1.0) -> None:
    """Print one row of the table: median, minimum, maximum, number of rounds."""
    scaled = [value * scale for value in values]
    print(
        f"| {what} | {target} | {statistics.median(scaled):.3g} {unit} "
        f"| {min(scaled):.3g} to {max(scaled):.3g} {unit} | {len(scaled)} |"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if arguments.parse_args().quick else 10
    print(f"Machine: {machine.describe()}\n")
    print("| what | to reach | median | range | rounds |\n| --- | --- | --- | --- | --- |")
    row("lab ready (6 nodes), from process start", "<= 0.6 s", start_up(rounds))
    row("demo pods Running and Ready, from the first request", "<= 0.3 s", demo_pods(rounds))
    with lab() as cluster:
        core = api(cluster)
        many_pods(core, 1, 1)
        row(
            "API reads through the official client",
            ">= 1,500 /s",
            [reads_per_second(core, 2) for _ in range(3)],
            "/s",
        )
        for name in ("linux-0", "windows-1"):
            command = ["hostname"]
            row(
                f"exec round trip, {name.split('-')[0]} pod",
                "<= 5 ms",
                timed(lambda n=name, c=command: exec_once(core.api_client, NAMESPACE, n, c), 100),
                "ms",
                1000,
            )
        seconds = seconds_to_packets(core, 2 * rounds)
        row("policy posted to packets dropped, Linux pod", "<= 15 ms", seconds, "ms", 1000)
        over_cli, over_socket = fault(cluster)
        row("fault injected and verified, control socket", "<= 100 ms", over_socket, "ms", 1000)
        row("fault injected and verified, command line", "", over_cli, "ms", 1000)
    with lab("ten-nodes") as cluster:
        core = api(cluster)
        row(
            "200 pods Running on 10 nodes, from the first request",
            "<= 5 s",
            [many_pods(core, 120, 80)],
        )
        row("memory of all processes (PSS) with them", "<= 1 GB", [memory(cluster)], "MiB")


if __name__ == "__main__":
    main()
