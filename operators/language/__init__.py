"""Words, sentences, tokens and languages; the word lists are data files."""
