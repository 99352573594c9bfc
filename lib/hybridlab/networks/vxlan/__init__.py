"""Calico's VXLAN overlay."""
