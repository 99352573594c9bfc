# SPDX-License-Identifier: Apache-2.0
"""The checks that public test suites make of Services, pods' names and the end of pods, repeated
on a whole lab."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hybridlab.controllers.load_balancers import addresses_of
from hybridlab.profiles.load import load
from tests.lab.controllers.test_whole_cluster import demo_pod, deploy
from tests.lab.controllers.whole_lab import WholeLab

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
WINDOWS = "10.0.20348"
PORTS = [
    {"name": f"SERVE_{kind}_PORT_{port}", "value": f"{kind}-{port}"}
    for kind in ("TCP", "UDP")
    for port in (80, 81)
]


def in_lab(scenario: Callable[[WholeLab], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), WholeLab(load("untainted"), patient=True) as lab:
            await scenario(lab)

    asyncio.run(run())


def service(name: str, **spec: Any) -> Any:
    ports = [{"port": 80}]
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


async def page(lab: WholeLab, url: str, pod: str = "client") -> str:
    """What a Linux pod gets, once it gets something."""

    async def got() -> str:
        code, text, _ = await lab.exec("demo", pod, "wget", "-qO-", "-T", "2", url)
        return text if code == 0 else ""

    return str(await lab.until(got))


def test_porter_of_both_systems_is_connected_to_on_every_port_and_protocol() -> None:
    """As Kubernetes' Netpol specs probe: `agnhost connect` from every pod to every pod."""

    async def scenario(lab: WholeLab) -> None:
        addresses = await deploy(
            lab,
            demo_pod("x", AGNHOST, command=["/agnhost", "porter"], env=PORTS),
            demo_pod("y", AGNHOST, WINDOWS, command=["/agnhost", "porter"], env=PORTS),
        )
        for client in addresses:
            for server, address in addresses.items():
                for port, opened in ((80, 0), (81, 0), (82, 1)):
                    for protocol in ("tcp", "udp"):
                        argv = (
                            "/agnhost",
                            "connect",
                            f"{address}:{port}",
                            "--timeout=3s",
                            f"--protocol={protocol}",
                        )
                        code, _, said = await lab.exec("demo", client, *argv)
                        assert code == opened, (client, server, port, protocol, said)

    in_lab(scenario)


def test_services_by_other_names_addresses_and_host_ports_lead_to_their_pods() -> None:
    async def scenario(lab: WholeLab) -> None:
        client: Any = demo_pod("client", "busybox:1.36", command=["sleep", "3600"])
        client["spec"] |= {"hostname": "me", "subdomain": "web", "nodeName": "linux-2"}
        client["spec"]["hostAliases"] = [{"ip": "192.0.2.7", "hostnames": ["alias"]}]
        served: dict[str, Any] = {
            "env": [{"name": "SERVE_TCP_PORT_80", "value": "served"}],
            "command": ["/agnhost", "porter"],
        }
        web: Any = demo_pod(
            "web", AGNHOST, ports=[{"containerPort": 80, "hostPort": 7777}], **served
        )
        web["spec"]["nodeName"] = "linux-1"
        windows = demo_pod("windows", "mcr.microsoft.com/windows/servercore:ltsc2022", WINDOWS,
                           command=["powershell.exe", "-Command", "Start-Sleep 3600"])  # fmt: skip
        addresses = await deploy(lab, client, web, windows)
        for made in (
            service("web", type="NodePort", externalIPs=["203.0.113.80"]),
            service("inside", type="ExternalName", externalName="web.demo.svc.cluster.local"),
            service("outside", type="ExternalName", externalName="db.example.com"),
        ):
            await lab.client.create("services", made, "demo")
        nodes = {machine.name: machine.address for machine in lab.control_plane.machines}
        for url in ("web", "inside", "203.0.113.80", f"{nodes['linux-1']}:7777"):
            assert await page(lab, f"http://{url}") == "served"

        async def answers_windows() -> bool:
            code, text, _ = await lab.exec(
                "demo", "windows", "powershell", "-Command",
                "(Invoke-WebRequest -UseBasicParsing -TimeoutSec 5 http://inside).StatusCode",
            )  # fmt: skip
            return (code, text.strip()) == (0, "200")

        # Each replica of CoreDNS learns of a Service by itself, and this pod may ask another one.
        await lab.until(answers_windows, seconds=60)
        _, text, _ = await lab.exec("demo", "client", "nslookup", "outside.demo.svc.cluster.local")
        assert "outside.demo.svc.cluster.local\tcanonical name = db.example.com" in text
        code, _, _ = await lab.exec(
            "demo", "client", "nc", "-z", "-w", "2", nodes["linux-3"], "7777"
        )
        assert code == 1, "a host port is its pod's node's alone"
        _, hosts, _ = await lab.exec("demo", "client", "cat", "/etc/hosts")
        own = f"{addresses['client']}\tme.web.demo.svc.cluster.local\tme"
        assert hosts.splitlines()[-4:] == [
            own,
            "",
            "# Entries added by HostAliases.",
            "192.0.2.7\talias",
        ]
        change = {"spec": {"type": "ExternalName", "externalName": "inside.demo.svc.cluster.local"}}
        await lab.client.patch("services", "web", change, "demo")

        async def is_a_name() -> bool:
            _, text, _ = await lab.exec("demo", "client", "nslookup", "web.demo.svc.cluster.local")
            return "canonical name = inside.demo.svc.cluster.local" in text

        await lab.until(is_a_name)

    in_lab(scenario)


def test_a_pod_that_ends_serves_by_its_service_until_its_grace_or_its_own_delay_is_over() -> None:
    async def scenario(lab: WholeLab) -> None:
        await deploy(
            lab,
            demo_pod("client", "busybox:1.36", command=["sleep", "3600"]),
            demo_pod(
                "web",
                AGNHOST,
                command=["/agnhost", "netexec", "--http-port=80", "--delay-shutdown=4"],
            ),
        )
        await lab.client.create("services", service("web"), "demo")
        assert await page(lab, "http://web/hostname") == "web"
        began = time.monotonic()
        await lab.client.delete("pods", "web", "demo", grace_period_seconds=30)

        async def ending() -> bool:
            slices, _ = await lab.client.list("endpointslices.discovery.k8s.io", "demo")
            found = [
                endpoint["conditions"]
                for slice_ in slices
                for endpoint in slice_.get("endpoints") or ()
            ]
            return {"ready": False, "serving": True, "terminating": True} in found

        await lab.until(ending, 3.0)
        await asyncio.sleep(1.0)  # until every node knows; what follows is long before its end
        assert await page(lab, "http://web/hostname") == "web"
        assert time.monotonic() - began < 4.0

        async def gone() -> bool:
            pods, _ = await lab.client.list("pods", "demo")
            return [pod["metadata"]["name"] for pod in pods] == ["client"]

        await lab.until(gone)
        assert 4.0 <= time.monotonic() - began < 25.0
        code, _, _ = await lab.exec(
            "demo", "client", "wget", "-qO-", "-T", "1", "http://web/hostname"
        )
        assert code == 1

    in_lab(scenario)


def test_a_load_balancers_address_leads_to_the_service_as_long_as_it_asks_for_one() -> None:
    async def scenario(lab: WholeLab) -> None:
        await deploy(
            lab,
            demo_pod("client", "busybox:1.36", command=["sleep", "3600"]),
            demo_pod("web", AGNHOST, command=["/agnhost", "netexec", "--http-port=80"]),
        )
        for name in ("first", "second"):
            await lab.client.create("services", service(name, type="LoadBalancer"), "demo")

        async def addresses() -> list[str]:
            services, _ = await lab.client.list("services", "demo")
            return [address for found in services for address in addresses_of(found)]

        async def both() -> list[str]:
            found = await addresses()
            return found if len(found) == 2 else []

        first, second = await lab.until(both)
        assert first != second
        assert await page(lab, f"http://{first}/hostname") == "web"
        plain = {"spec": {"type": "ClusterIP"}}
        await lab.client.patch("services", "first", plain, "demo")

        async def one() -> bool:
            return await addresses() == [second]

        await lab.until(one)

        async def nobody_answers() -> bool:
            asked = ("wget", "-qO-", "-T", "1", f"http://{first}/hostname")
            code, _, _ = await lab.exec("demo", "client", *asked)
            return code == 1

        await lab.until(nobody_answers)
        assert await page(lab, f"http://{second}/hostname") == "web"

    in_lab(scenario)
