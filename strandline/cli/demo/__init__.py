"""`strandline demo`."""
