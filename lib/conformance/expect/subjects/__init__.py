"""Expectations by subject: pages, sizes, streams, backends of Services and so on."""
