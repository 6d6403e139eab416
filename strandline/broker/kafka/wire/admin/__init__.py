"""Messages of the APIs by which tools and frameworks manage a cluster, one family a file."""
