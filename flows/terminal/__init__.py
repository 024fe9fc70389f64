"""Terminal output: cards, progress, results and errors."""
