"""The gRPC server of a process, and what it does with calls that no handler gets."""
