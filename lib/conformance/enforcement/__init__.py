# SPDX-License-Identifier: Apache-2.0
"""The policies that a test brings into force: the policies of a manifest, or a world (a set of
policies with pods of its own)."""
