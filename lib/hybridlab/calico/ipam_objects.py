# SPDX-License-Identifier: Apache-2.0
"""Writes IPAM's state to the API: IPAMBlock, BlockAffinity and IPAMHandle objects, in batches.

There is one writer for the whole cluster. A caller that changed IPAM awaits ``saved()``; all
changes made before the batch starts are written together. An object that could not be written is
written with the next change.
"""

import asyncio
import ipaddress
from collections.abc import Callable

from hybridlab.api.contract import ApiError, Client, Obj
from hybridlab.calico.resources import CalicoResources
from hybridlab.networks.ipam.block import Attribute, Block
from hybridlab.networks.ipam.ipam import IPAM

BATCH_SECONDS = 0.002
"""Seconds for which changes are collected before they are written."""


def block_name(cidr: ipaddress.IPv4Network) -> str:
    """Return the name of a block's object: ``192-168-0-64-26``."""
    return str(cidr).replace(".", "-").replace("/", "-")


def block_object(block: Block) -> Obj:
    """Return the IPAMBlock object of a block."""
    attributes: list[Attribute] = []
    index: dict[int, int] = {}
    allocations: list[int | None] = [None] * block.size
    for ordinal in sorted(block.used):
        attribute = block.used[ordinal]
        if id(attribute) not in index:
            index[id(attribute)] = len(attributes)
            attributes.append(attribute)
        allocations[ordinal] = index[id(attribute)]
    return {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "IPAMBlock",
        "metadata": {"name": block_name(block.cidr)},
        "spec": {
            "cidr": str(block.cidr),
            "affinity": f"host:{block.node}",
            "strictAffinity": False,
            "allocations": allocations,
            "attributes": [
                {"handle_id": item.handle, "secondary": dict(item.secondary)} for item in attributes
            ],
            "unallocated": list(block.free),
            "sequenceNumber": block.sequence,
            "sequenceNumberForAllocation": {
                str(key): value for key, value in sorted(block.sequence_of.items())
            },
            "deleted": False,
        },
    }


def affinity_object(block: Block, resources: CalicoResources) -> Obj:
    """Return the BlockAffinity of a block."""
    head = resources.head("blockaffinities", "BlockAffinity")
    old = head["apiVersion"].endswith("/v1")
    return {
        **head,
        "metadata": {"name": f"{block.node}-{block_name(block.cidr)}"},
        "spec": {
            "cidr": str(block.cidr),
            "node": block.node,
            "state": "confirmed",
            "type": "host",
            "deleted": "false" if old else False,
        },
    }


def handle_object(handle: str, held: tuple[tuple[Block, str], ...]) -> Obj:
    """Return the IPAMHandle with the number of addresses that a handle holds in each block."""
    counts: dict[str, int] = {}
    for block, _ in held:
        counts[str(block.cidr)] = counts.get(str(block.cidr), 0) + 1
    return {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "IPAMHandle",
        "metadata": {"name": handle.lower()},
        "spec": {"handleID": handle, "block": counts, "deleted": False},
    }


class IPAMWriter:
    """Updates the API's IPAM objects to IPAM's state."""

    def __init__(
        self, client: Client, ipam: IPAM, resources: CalicoResources, log: Callable[[str], None]
    ) -> None:
        self._client = client
        self._ipam = ipam
        self._resources = resources
        self._log = log
        self._claimed: set[ipaddress.IPv4Network] = set()
        self._batch: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._enabled = resources.served("ipamblocks")

    async def saved(self) -> None:
        """Wait until all changes so far are in the API. Raise ApiError if a change was refused."""
        if self._batch is None or self._batch.done():
            self._batch = asyncio.create_task(self._write_soon())
        await asyncio.shield(self._batch)

    async def save_now(self) -> None:
        """Write at once, without collecting changes; for the start of a cluster."""
        async with self._writing:
            await self._write()

    async def _write_soon(self) -> None:
        await asyncio.sleep(BATCH_SECONDS)
        async with self._writing:
            self._batch = None  # changes from here on belong to the next batch
            await self._write()

    async def _write(self) -> None:
        blocks = list(self._ipam.dirty_blocks)
        handles = list(self._ipam.dirty_handles)
        self._ipam.dirty_blocks.clear()
        self._ipam.dirty_handles.clear()
        if not self._enabled:
            return
        results = await asyncio.gather(
            *(self._put_block(cidr) for cidr in blocks),
            *(self._put_handle(handle) for handle in handles),
            return_exceptions=True,
        )
        failed = next((result for result in results if isinstance(result, BaseException)), None)
        for cidr, result in zip(blocks, results, strict=False):
            if isinstance(result, BaseException):
                self._ipam.dirty_blocks[cidr] = None
        for handle, result in zip(handles, results[len(blocks) :], strict=True):
            if isinstance(result, BaseException):
                self._ipam.dirty_handles[handle] = None
        if failed is not None:
            self._log(
                f"IPAM objects could not be written (blocks to write: {len(self._ipam.dirty_blocks)}): {failed}"
            )
            raise failed

    async def _put_block(self, cidr: ipaddress.IPv4Network) -> None:
        block = self._ipam.block(cidr)
        if cidr not in self._claimed:
            await self._put(
                self._resources.name("blockaffinities"),
                affinity_object(block, self._resources),
                new=True,
            )
            await self._put(self._resources.name("ipamblocks"), block_object(block), new=True)
            self._claimed.add(cidr)
        else:
            await self._put(self._resources.name("ipamblocks"), block_object(block), new=False)

    async def _put_handle(self, handle: str) -> None:
        name = self._resources.name("ipamhandles")
        held = self._ipam.of_handle(handle)
        if held:
            await self._put(name, handle_object(handle, held), new=True)
            return
        try:
            await self._client.delete(name, handle.lower())
        except ApiError as error:
            if error.code != 404:
                raise

    async def _put(self, resource: str, obj: Obj, *, new: bool) -> None:
        """Create an object or replace its spec; ``new``: try to create it first."""
        name = obj["metadata"]["name"]
        change = [{"op": "replace", "path": "/spec", "value": obj["spec"]}]
        try:
            if new:
                await self._client.create(resource, obj)
            else:
                await self._client.patch(resource, name, change, kind="json")
        except ApiError as error:
            if error.reason == "AlreadyExists":
                await self._client.patch(resource, name, change, kind="json")
            elif error.code == 404 and not new:
                await self._client.create(resource, obj)
            else:
                raise
