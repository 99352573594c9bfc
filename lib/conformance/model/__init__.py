# SPDX-License-Identifier: Apache-2.0
"""The shapes everything else speaks in: frozen, typed, JSON in and out, standard library only.

The JSON form is described by ``docs/schema/conformance.schema.json`` and versioned by ``SCHEMA_VERSION``.
"""

SCHEMA_VERSION = "3"
