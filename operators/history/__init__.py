"""A channel's closed windows: chunked, indexed, kept hot, and durable in a store."""
