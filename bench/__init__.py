"""Tidemark against a hand-written Spark job, side by side in one run: `make bench`."""
