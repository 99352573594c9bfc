# SPDX-License-Identifier: Apache-2.0
"""Windows probe programs as the lab emulates them: by docs/probe-protocol.md, for files that are recorded here.

PowerShell itself is not emulated far enough to run them.  The lab reads the mounted file's protocol line and SHA-256,
compares them with ``recorded.json``, and behaves as the document says; any other file is ``not emulated``.
"""
