"""The mutations, one file a family of docs/correctness.md."""
