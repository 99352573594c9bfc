"""The kubeconfig of Calico's CNI plugin on a Windows node, with a token that ends a day after calico-node began there.

Nobody is authenticated by the token: the lab's CNI plugin asks by other ways.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

LIFE = 24 * 3600
"""s.  How long a token lives that calico-node asks for (node/pkg/cni/token_watch.go)."""
NAME = "calico-kubeconfig"


def text(began: float) -> str:
    """The file, with a token asked for at that moment (Unix seconds)."""
    payload = {
        "aud": ["https://kubernetes.default.svc.cluster.local"], "exp": int(began) + LIFE, "iat": int(began),
        "iss": "https://kubernetes.default.svc.cluster.local",
        "sub": "system:serviceaccount:calico-system:calico-cni-plugin",
    }  # fmt: skip
    token = ".".join((_encoded({"alg": "RS256", "kid": "lab"}), _encoded(payload), "c2lnbmF0dXJl"))
    return (
        "# Kubeconfig file for Calico CNI plugin. Installed by calico/node.\n"
        "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://10.96.0.1:443\n"
        f"users:\n- name: calico\n  user:\n    token: {token}\n"
        "contexts:\n- name: calico-context\n  context:\n    cluster: local\n    user: calico\n"
        "current-context: calico-context\n"
    )


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).decode().rstrip("=")
