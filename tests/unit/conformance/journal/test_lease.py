# SPDX-License-Identifier: Apache-2.0
"""A lease names its holder; a namespace on its way out explains a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.journal.lease import _holding, _on_its_way_out, _who
from conformance.kube.refused import ApiRefused

SINCE = {"acquireTime": "2026-03-01T10:00:00.123456Z"}


@pytest.mark.parametrize(
    ("spec", "who", "run"),
    [
        (
            {"holderIdentity": "3f2a1c user@host", **SINCE},
            "run 3f2a1c of user@host, since 2026-03-01T10:00:00Z",
            "3f2a1c",
        ),
        (
            {"holderIdentity": "3f2a1c", "acquireTime": "2026-03-01T10:00:00Z"},
            "run 3f2a1c, since 2026-03-01T10:00:00Z",
            "3f2a1c",
        ),
        ({"holderIdentity": "3f2a1c a b"}, "run 3f2a1c of a b", "3f2a1c"),
        ({"holderIdentity": ""}, "run unknown", ""),
        ({}, "run unknown", ""),
        (None, "run unknown", ""),
    ],
)
def test_the_holder_of_a_lease_is_a_run_with_its_user(spec: Any, who: str, run: str) -> None:
    assert _who({"spec": spec}) == who
    assert _holding({"spec": spec}) == run


@pytest.mark.parametrize(
    ("code", "causes", "out"),
    [
        (403, [{"reason": "NamespaceTerminating"}], True),
        (403, [{"reason": "Other"}, {"reason": "NamespaceTerminating"}], True),
        (403, [{"reason": "Other"}], False),
        (403, None, False),
        (409, [{"reason": "NamespaceTerminating"}], False),
    ],
)
def test_only_a_refusal_by_a_terminating_namespace_passes(
    code: int, causes: Any, out: bool
) -> None:
    refusal = ApiRefused(code, "r", "m", "POST", {"details": {"causes": causes}})
    assert _on_its_way_out(refusal) is out
