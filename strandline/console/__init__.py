"""A web page beside a cluster, made of what its public clients read."""
