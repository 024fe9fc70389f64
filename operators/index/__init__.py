"""Search over a history: BM25, exact cosine similarity, and rank fusion."""
