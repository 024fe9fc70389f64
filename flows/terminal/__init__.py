"""What a person sees in a terminal: cards, progress, results, errors."""
