# SPDX-License-Identifier: Apache-2.0
"""Explains a failed first request to an API server."""

from typing import TYPE_CHECKING

from conformance.kube.access import Access
from conformance.kube.refused import ApiRefused, ApiUnreachable, NoApiServer, describe

if TYPE_CHECKING:
    pass


def first_contact(access: Access, error: ApiRefused | ApiUnreachable) -> str:
    """Return the explanation of a failed first contact, in one line."""
    where = f"{access.server} ({access.where})"
    if isinstance(error, NoApiServer):
        return (
            f"{where} is not a Kubernetes API server, or a gateway answered in its place: {error}"
        )
    if isinstance(error, ApiRefused):
        if error.code == 401:
            return f"{where} does not accept the credentials of {access.user}: expired or revoked ({error.message})"
        if error.forbidden:
            return f"{where} forbids {access.user} even to read /version: {error.message}"
        return f"{where} answers {error.code} {error.reason} to {error.request}: {error.message}"
    text = describe(error.last)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        foreign = any(
            words in text for words in ("issuer", "self-signed", "self signed")
        )  # otherwise it has expired, or is for another host
        why = (
            "this kubeconfig's certificate authority did not sign"
            if foreign
            else "is not valid for this host, or not now"
        )
        return f"{where} has a certificate that {why}: {text}"
    if "refused" in text.lower() and not text.startswith("proxy "):
        return f"{where} refuses connections: is the cluster (or the lab that wrote this kubeconfig) still running?"
    return f"{where} cannot be reached: {text}"
