"""Filling the collections of vectors: messages cut into pieces, embedded, kept up to date, and counted."""
