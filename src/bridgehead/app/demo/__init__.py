"""Demo: two sites on this machine, real training, real traffic, and a move between them."""
