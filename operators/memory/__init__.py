"""The memory of a window, the earlier turns it is summarised with: strategies, ranking, packing."""
