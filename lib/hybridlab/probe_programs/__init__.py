# SPDX-License-Identifier: Apache-2.0
"""The lab's emulation of the Windows probe programs, according to docs/probe-protocol.md, for the
files that are recorded here.

PowerShell itself is not emulated far enough to run them. The lab reads the mounted file's protocol
line and SHA-256, compares them with ``recorded.json``, and behaves as docs/probe-protocol.md
describes; for any other file it prints ``not emulated``.
"""
