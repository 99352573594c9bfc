"""The container runtime: images, file systems, processes and applets inside labd.  Imports only kernel."""
