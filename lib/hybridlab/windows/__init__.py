"""What only Windows does: reserved addresses, service source NAT by build, PowerShell."""
