"""The sink: from rows to topics, each row once."""
