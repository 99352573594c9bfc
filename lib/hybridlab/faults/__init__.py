# SPDX-License-Identifier: Apache-2.0
"""Things deliberately wrong: each with its scope, injection, healing and verification."""
