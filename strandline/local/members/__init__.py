"""The members of a local cluster: their file, their handles, their ids and ports."""
