# SPDX-License-Identifier: Apache-2.0
"""Taps at ACL lists, the zone and the API."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.informer import Informer
from hybridlab.dataplane.model import Zone
from hybridlab.faults.lab_parts import LabParts
from tests.detection.taps.seams import Put, put
from tests.detection.taps.updates import SLICES

Shown = Mapping[str, tuple[Any, ...]]
"""Map each endpoint to the entries of its ACL list."""
Uids = tuple[str, ...]


def lists_look_unchanged(shown: Shown) -> Shown:
    """Show only the entry of an endpoint's ACL list that Calico always puts there, whatever list
    HNS received."""
    return {endpoint: entries[:1] for endpoint, entries in shown.items()}


def lists_reset_nobody(resets: Uids, now: Uids, programmed: Uids) -> Uids:
    """Reset no existing connections when HNS receives a new ACL list for an endpoint that has
    one."""
    return tuple(uid for uid in resets if uid not in programmed)


def rules_once(shown: Shown) -> Shown:
    """Show each policy's rule only at one endpoint of a node, and without the endpoints' own
    addresses."""
    seen: set[Any] = set()
    found: dict[str, list[Any]] = {}
    for endpoint, entries in shown.items():
        for entry in entries:
            of_a_policy = str(entry.get("Id", "")).startswith("policy-")
            if not of_a_policy or entry["Id"] not in seen:
                without = {**entry, "LocalAddresses": ""} if of_a_policy else entry
                found.setdefault(endpoint, []).append(without)
            seen.add(entry.get("Id"))
    return {endpoint: tuple(entries) for endpoint, entries in found.items()}


def on_windows(seam: str, tap: Any) -> Put:
    """Return a function that puts a tap at a seam of the Felixes of Windows nodes."""

    def put_it(lab: LabParts) -> None:
        for node in lab.calico.windows:
            put(getattr(lab.calico.felixes[node].faults, seam), tap)

    return put_it


def unready_pods_named(lab: LabParts) -> None:
    """Let the name of a headless Service also resolve to its pods that are not ready."""
    slices = Informer(lab.client, SLICES)

    def tap(zone: Zone, *_: Any) -> Zone:
        return zone_with(zone, list(slices))

    def again(_: Obj) -> None:
        tasks.add(asyncio.create_task(lab.zone_gate.again([""])))

    tasks: set[asyncio.Task[None]] = {asyncio.create_task(slices.run())}
    slices.on_change(again)
    put(lab.zone_gate.seam, tap)


def zone_with(zone: Zone, slices: list[Obj]) -> Zone:
    """Return a zone that also has the pods of headless Services that are not ready."""
    a = {name: set(addresses) for name, addresses in zone.a.items()}
    ptr = dict(zone.ptr)
    for one in slices:
        meta = one["metadata"]
        service = (meta.get("labels") or {}).get("kubernetes.io/service-name")
        name = f"{service}.{meta['namespace']}.svc.{zone.domain}"
        if name in zone.ptr.values():
            continue  # the Service has a ClusterIP of its own
        for endpoint in one.get("endpoints") or ():
            for address in endpoint["addresses"]:
                own = f"{endpoint.get('hostname') or address.replace('.', '-')}.{name}"
                a.setdefault(name, set()).add(address)
                a.setdefault(own, set()).add(address)
                ptr[address] = own
    return replace(zone, a={name: tuple(sorted(found)) for name, found in a.items()}, ptr=ptr)


def clock_differs(node: str, seconds: float) -> Put:
    """Let the clock with which a node's kubelet renews its lease differ from all others."""

    def tap(lease: Obj, plural: str, old: Obj | None) -> Obj:
        meta = lease["metadata"]
        renewed = (lease.get("spec") or {}).get("renewTime") if plural == "leases" else None
        before = ((old or {}).get("spec") or {}).get("renewTime")
        if meta["name"] != node or not renewed or renewed == before:
            return lease
        there = datetime.datetime.fromisoformat(renewed) + datetime.timedelta(seconds=seconds)
        lease["spec"]["renewTime"] = there.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return lease

    return lambda lab: put(lab.interference.admission, tap)


def block_sizes_can_be_changed(lab: LabParts) -> None:
    """Let the API accept another blockSize for an existing pool."""

    def tap(pool: Obj, plural: str, old: Obj | None) -> Obj:
        if plural == "ippools" and old is not None:
            pool["spec"]["blockSize"] = old["spec"]["blockSize"]
        return pool

    put(lab.interference.admission, tap)


PUTS: dict[str, Put] = {
    "acl-lists look-unchanged": on_windows("acls", lists_look_unchanged),
    "acl-lists reset-nobody": on_windows("resets", lists_reset_nobody),
    "acl-lists rules-once": on_windows("acls", rules_once),
    "slices unready-named": unready_pods_named,
    "clocks one-behind": clock_differs("windows-2022", -120.0),
    "clocks one-ahead": clock_differs("linux-1", 120.0),
    "block-sizes-can-be-changed": block_sizes_can_be_changed,
}
"""Map the name of each tap to the function that puts it at its seam."""
