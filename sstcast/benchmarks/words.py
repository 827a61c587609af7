"""How many words a model for ogbg-code2 knows, and how many it predicts; those of its authors' baselines."""

WORDS = 5000
UNKNOWN, END = WORDS, WORDS + 1
LENGTH = 5
