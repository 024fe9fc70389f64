"""Embedders: ONNX, sentence-transformers, and embedding servers."""
