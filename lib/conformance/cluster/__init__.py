"""What a cluster is: facts with their sources, preflight, how Calico objects are written, what to keep of a failure."""
