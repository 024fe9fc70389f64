"""The durable history, stored in LanceDB tables."""
