# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig of Calico's CNI plugin on a Windows node, with a token that expires a day after it
was issued.

The lab's CNI plugin does not use this file: the plugin reaches the API in another way.
"""

import base64
import json
from collections.abc import Mapping

LIFE = 24 * 3600
"""The lifetime, in seconds, of a token that calico-node requests (node/pkg/cni/token_watch.go)."""


def text(asked: float) -> str:
    """Return the file's text, with a token that was requested at ``asked`` (Unix seconds)."""
    begin = {"aud": ["https://kubernetes.default.svc"], "exp": int(asked) + LIFE, "iat": int(asked)}
    token = f"{_encoded({'alg': 'RS256'})}.{_encoded(begin)}.c2lnbmF0dXJl"
    return f"apiVersion: v1\nkind: Config\nusers:\n- name: calico\n  user:\n    token: {token}\n"


def _encoded(part: Mapping[str, object]) -> str:
    return (
        base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )
