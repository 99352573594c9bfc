# SPDX-License-Identifier: Apache-2.0
"""What a test brings into force: the policies of a manifest, and worlds of policies at pods of
their own."""
