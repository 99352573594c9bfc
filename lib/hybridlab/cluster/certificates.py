# SPDX-License-Identifier: Apache-2.0
"""The lab's own certificate authority and the API server's certificate: made anew for every lab, kept in memory."""

import ssl
from dataclasses import dataclass

import trustme

NAMES = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class Identity:
    """The API server's certificate, and the authority that its clients trust."""

    context: ssl.SSLContext
    ca_pem: bytes


def make() -> Identity:
    """Return a new authority and a certificate for every name that the API server answers to."""
    authority = trustme.CA(organization_name="hybridlab", organization_unit_name="embedded lab")
    certificate = authority.issue_cert(*NAMES, common_name="kube-apiserver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return Identity(context, authority.cert_pem.bytes())
