"""What a history is searched with: BM25, exact cosine, and rank fusion."""
