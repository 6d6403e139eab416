"""Between protobuf and the clients' own types, one file a family of calls."""
