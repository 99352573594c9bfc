"""Calico: IPAM, Felix (watches the API, programs the data plane), policy resolution, its own API objects."""
