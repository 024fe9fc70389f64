"""Which evidence a window is summarised with: strategies, ranking, packing."""
