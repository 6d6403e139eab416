"""What must hold in every run, with any workload: each file is one judge."""
