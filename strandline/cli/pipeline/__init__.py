"""`strandline pipeline`: jobs that run on Spark."""
