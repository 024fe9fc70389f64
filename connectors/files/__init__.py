"""Chats in files: which format a file has, and its messages as a stream."""
