# SPDX-License-Identifier: Apache-2.0
"""The policies that a test brings into force: those of a manifest, and worlds of policies at their
own pods."""
