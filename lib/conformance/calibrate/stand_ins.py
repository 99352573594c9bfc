# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for names and addresses in texts that users pass on. A name always gets the same
stand-in. Secrets are removed first (:mod:`conformance.scrubbing`). Texts that do not identify the
cluster stay: loopback and unspecified addresses, netmasks, prefix lengths, names of products, the
first two bytes of a MAC address, and numbers in JSON, such as times.
"""

import ipaddress
import re
from collections.abc import Mapping

from conformance.scrubbing import scrubbed

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_TOP = (
    "com|net|org|info|biz|io|cloud|dev|local|localdomain|lan|corp|internal|intranet|intra|private"
    "|ad|at|au|be|br|ca|ch|cn|cz|de|dk|es|eu|fi|fr|in|it|jp|kr|mx|nl|nz|pl|se|sg|uk|us|za"
)
"""Endings by which a text of two words is recognised as a domain. With any other ending, the text
could be a file name."""
_HOST = (
    rf"(?:(?:{_LABEL}\.){{2,}}[a-z]{{2,}}|{_LABEL.upper()}(?:\.{_LABEL.upper()})+\.[A-Z]{{2,}}"
    rf"|(?i:{_LABEL}\.(?:{_TOP})))(?![\w.-]*\w)"
)
_FOUND = (
    rf"(?P<v4>(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w.]*\w))"
    r"|(?P<guid>\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b)"
    r"|(?<=\b[0-9A-Fa-f]{2}[-:][0-9A-Fa-f]{2}[-:])"
    r"(?P<mac>[0-9A-Fa-f]{2}(?:[-:][0-9A-Fa-f]{2}){3}\b)"
    r"|(?P<v6>(?<![\w:.])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]{1,4}:){7})[0-9A-Fa-f:]{3,39}(?![\w:]))"
    r"|(?P<hex>(?<!\":)(?<!\": )(?<!\":  )(?<!\":-)(?<!\d\.)"
    r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b)"
    r"|(?P<user>(?<=\\Users\\)[^\\\"'\s]+)"
    rf"|(?P<host>(?<=://)(?i:(?:{_LABEL}\.)+[a-z]{{2,}})(?![\w-])|(?<![\w./\\-]){_HOST})"
    r"|(?P<pod>\b[a-z][a-z0-9-]*-[bcdfghjklmnpqrstvwxz2456789]{5}\b)"
)
_KEPT = re.compile(
    r"127\..*|0\.0\.0\.0|255\..*"
    r"|(?:.*\.)?(?:microsoft\.com|k8s\.io|kubernetes\.io|docker\.io|quay\.io"
    r"|projectcalico\.org|tigera\.io|system\.[a-z.]+)"
    r"|(?:(?:(?:[\w-]+\.)?(?:default|kube-system|calico-[\w-]+)\.)?svc\.)?cluster\.local"
)
_FORMS = {
    # the range of RFC 2544 has no real hosts
    "v4": lambda number: str(ipaddress.IPv4Address("198.18.0.0") + number),
    "v6": lambda number: f"2001:db8::{number:x}",
    "guid": lambda number: f"00000000-0000-0000-0000-{number:012x}",
    "mac": lambda number: f"00-00-{number >> 8:02x}-{number & 255:02x}",
    "host": lambda number: f"host-{number}.example.org",
}


class StandIns:
    """Replaces names and addresses in texts."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Set up the replacement. ``names`` maps each name to its stand-in.

        A name is replaced if it is a whole word, in upper or lower case. The 15 letters to which
        NetBIOS shortens the name are replaced, too.
        """
        self._given = {
            ("name", name.lower()[:letters]): stand_in
            for letters in (15, 999)
            for name, stand_in in names.items()
        }
        words = sorted((re.escape(word) for _, word in self._given), key=len, reverse=True)
        name = rf"(?P<name>(?<!\w)(?i:{'|'.join(words)})(?!\w))"
        named = rf"{name}(?:\.(?P<domain>{_HOST}))?|" if words else ""
        self._found = re.compile(named + _FOUND)

    def __call__(self, text: str) -> str:
        """Return a text without secrets, with stand-ins."""
        return self._found.sub(self._replaced, scrubbed(text))

    def _replaced(self, found: re.Match[str]) -> str:
        groups = found.groupdict()
        if name := groups.get("name"):
            domain = self._stand_in("host", groups["domain"]) if groups["domain"] else ""
            return f"{self._given['name', name.lower()]}{domain and '.'}{domain}"
        return self._stand_in(str(found.lastgroup), found[0])

    def _stand_in(self, kind: str, written: str) -> str:
        """Return the stand-in for a text of this kind, or the text itself if it does not identify
        the cluster."""
        text = written.lower()
        if _KEPT.fullmatch(text):
            return written
        if (kind, text) not in self._given:
            number = 1 + sum(known == kind for known, _ in self._given)
            self._given[kind, text] = _FORMS.get(kind, lambda n: f"{kind}-{n}")(number)
        return self._given[kind, text]
