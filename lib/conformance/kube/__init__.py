# SPDX-License-Identifier: Apache-2.0
"""The only access to the Kubernetes API: reads as plain dicts, changes as Change objects, waits on
watches, exec.

Importing this package is cheap: the official client (0.2 to 0.6 s) is imported when a connection is
made.
"""
