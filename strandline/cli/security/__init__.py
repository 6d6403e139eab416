"""`strandline security`: what protects a cluster."""
