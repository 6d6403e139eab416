"""The connection to a server: kazoo's thread, sockets, and TLS."""
