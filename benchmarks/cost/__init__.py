"""What embedding, the history and the dataflow cost."""
