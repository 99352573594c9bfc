# SPDX-License-Identifier: Apache-2.0
"""What a test expects of traffic, and what it says when that is not so."""
