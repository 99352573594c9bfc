# SPDX-License-Identifier: Apache-2.0
"""Images that ran are counted once, with the nodes that ran them."""

from __future__ import annotations

from conformance.model.images import RanImage, together

ID = f"docker.io/library/busybox@sha256:{'0' * 64}"


def test_the_same_image_of_several_workers_is_one_with_all_its_nodes() -> None:
    found = together(
        [
            RanImage(image="busybox:1", image_id=ID, os="linux", nodes=("b",)),
            RanImage(image="busybox:1", image_id=ID, os="linux", nodes=("a",)),
            RanImage(image="busybox:1", image_id="", os="linux", nodes=("c",)),
        ]
    )
    assert [(image.nodes, image.digest) for image in found] == [
        (("c",), ""),
        (("a", "b"), f"sha256:{'0' * 64}"),
    ]
