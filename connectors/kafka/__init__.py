"""Kafka: source, sinks, connection and errors."""
