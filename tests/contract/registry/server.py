# SPDX-License-Identifier: Apache-2.0
"""A registry of images on loopback, which a proxy presents under any host name.

Clients reach it through ``HTTPS_PROXY``: the proxy accepts ``CONNECT HOST:443``, has a certificate
for this host, and answers as the host's registry would. Each answer can be wrong on purpose.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

INDEX = "application/vnd.oci.image.index.v1+json"
UNAUTHORIZED = {"WWW-Authenticate": 'Basic realm="registry"'}
PAGE = b"<!DOCTYPE html><title>Please log in</title>"
PLATFORMS = ("amd64", "arm64")


def manifest(path: str) -> bytes:
    """Return the index of an image; each path gives another index."""
    entries = [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(f"{path} {platform}".encode()),
            "size": 100,
            "platform": {"os": "linux", "architecture": platform},
        }
        for platform in PLATFORMS
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()


def digest(content: bytes) -> str:
    """Return the digest of content, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Registry:
    """The answers of the registry, and the requests that it received."""

    address: str
    certificates: Path
    """A file with the authority of the proxy's certificates."""
    answer: str = "image"
    asked: list[str] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients written in Go reach it."""
        return {"HTTPS_PROXY": self.address, "SSL_CERT_FILE": str(self.certificates)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry
    authority: trustme.CA
    host = ""

    def do_CONNECT(self) -> None:
        self.host = self.path.partition(":")[0]
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(self.host).configure_cert(context)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def do_GET(self) -> None:
        self.registry.asked.append(f"{self.command} {self.host}{self.path}")
        getattr(self, f"answer_{self.registry.answer}".replace(" ", "_"))()

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer_image(self, media: str = INDEX, of: str = "") -> None:
        if self.path == "/v2/":
            return self._send(200, b"{}")
        body = manifest(f"{self.host}{self.path}")
        headers = {"Docker-Content-Digest": of or digest(body)}
        return self._send(200, body, media, headers)

    def answer_404(self) -> None:
        if self.path == "/v2/":
            return self._send(200, b"{}")
        error = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
        return self._send(404, json.dumps({"errors": [error]}).encode())

    def answer_unauthorized(self) -> None:
        error = {"code": "UNAUTHORIZED", "message": "authentication required"}
        self._send(401, json.dumps({"errors": [error]}).encode(), headers=UNAUTHORIZED)

    def answer_page(self) -> None:
        self._send(200, PAGE, "text/html")

    def answer_another_type(self) -> None:
        self.answer_image("application/octet-stream")

    def answer_another_digest(self) -> None:
        self.answer_image(of=digest(b"another image"))

    def answer_nothing(self) -> None:
        self.registry.hanging.wait()

    def _send(
        self,
        status: int,
        body: bytes,
        media: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": media, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    """Run a registry on loopback; ``folder`` gets the certificate of its authority."""
    authority = trustme.CA()
    certificates = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(certificates))

    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found = Registry(f"http://127.0.0.1:{server.server_port}", certificates)
        Handler.registry = found
        Handler.authority = authority
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            found.hanging.set()
            server.shutdown()
            thread.join()
