"""Tidemark: change feeds in, trusted lakehouse tables out."""
