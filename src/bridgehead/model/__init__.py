"""Model: the frozen nouns that everything else speaks of. No I/O."""
