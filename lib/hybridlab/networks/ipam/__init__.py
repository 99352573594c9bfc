"""Calico's IPAM: blocks of addresses that belong to nodes."""
