"""Requests from broker to broker through ZooKeeper, and the record of their outcomes."""
