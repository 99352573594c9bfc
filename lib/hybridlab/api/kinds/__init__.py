# SPDX-License-Identifier: Apache-2.0
"""The special rules of each kind: defaults, admission, checks of values, immutable fields."""
