"""Readers of chat exports, one module a platform."""
