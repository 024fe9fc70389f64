"""The durable history in LanceDB tables."""
