"""Builds the parts from the settings: engine, embedder, language model, Kafka connection."""
