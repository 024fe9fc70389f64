"""Words, sentences, tokens and languages. The word lists are data files."""
