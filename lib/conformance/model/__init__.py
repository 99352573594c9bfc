# SPDX-License-Identifier: Apache-2.0
"""The values that all other packages exchange: frozen, typed, convertible to and from JSON, by the
standard library only.

The JSON form is described by ``docs/schema/conformance.schema.json`` and versioned by
``SCHEMA_VERSION``.
"""

SCHEMA_VERSION = "3"
