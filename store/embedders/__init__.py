"""Embedders: many texts in, as many vectors out. One small protocol, one module for each kind."""
