"""Who installed what: renders Calico's and Kubernetes' objects by the way of installing and by whose cluster it is."""
