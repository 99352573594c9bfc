# SPDX-License-Identifier: Apache-2.0
"""The special behaviour of Windows: reserved addresses, service source NAT by build, PowerShell."""
