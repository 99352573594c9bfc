# SPDX-License-Identifier: Apache-2.0
"""aiohttp, imported without reading the machine's certificates.

When aiohttp is imported, it makes a TLS context for its client, which reads every CA certificate of
the machine. This takes 50 of the 180 ms of the import, and is useless for a server. Therefore
OpenSSL's paths of certificates are empty during the import. The client can still be used with an
explicit context.
"""

import os

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_before = {name: os.environ.get(name) for name in _PLACES}
os.environ.update(dict.fromkeys(_PLACES, os.devnull))
try:
    from aiohttp import ClientConnectionResetError, WSMsgType, web
finally:
    for _name, _value in _before.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value

__all__ = ["ClientConnectionResetError", "WSMsgType", "web"]
