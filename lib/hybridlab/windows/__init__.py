# SPDX-License-Identifier: Apache-2.0
"""What only Windows does: reserved addresses, service source NAT by build, PowerShell."""
