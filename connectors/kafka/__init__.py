"""Kafka: the source, the sinks, the connection and its errors."""
