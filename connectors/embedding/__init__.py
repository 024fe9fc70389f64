"""Embedders: ONNX, sentence-transformers, and servers."""
