"""Requests from broker to broker through ZooKeeper, and the record of what became of them."""
