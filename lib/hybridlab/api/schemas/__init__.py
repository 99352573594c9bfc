# SPDX-License-Identifier: Apache-2.0
"""The fields that an object may have: compact data, and the only code that reads it."""
