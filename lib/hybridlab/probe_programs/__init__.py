# SPDX-License-Identifier: Apache-2.0
"""Windows probe programs as the lab emulates them: according to docs/probe-protocol.md, for files
that are recorded here.

PowerShell itself is not emulated far enough to run them. The lab reads the mounted file's protocol
line and SHA-256, compares them with ``recorded.json``, and behaves as the document describes; for
any other file it prints ``not emulated``.
"""
