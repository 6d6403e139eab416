"""The same requests to strandline and to Apache Kafka, and what differs in the answers."""
