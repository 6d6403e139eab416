"""Commands about the cluster, its brokers and topics."""
