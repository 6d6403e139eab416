"""Work on replicas' folders that waits for the disk: replicas at the same time share one wait."""
