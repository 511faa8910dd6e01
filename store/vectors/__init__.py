"""Stored vectors: read from the database, kept in memory, compared with a query."""
