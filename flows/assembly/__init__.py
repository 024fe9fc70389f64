"""Settings become parts: engine, embedder, language model, Kafka connection."""
