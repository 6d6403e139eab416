"""Kafka clients in a round's load: each a process that writes a history of the same form as `strandline
verify`. Only this folder imports the clients' libraries."""
