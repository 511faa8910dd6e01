"""The emulated Atlas for its own tests."""

from tests.atlas.fixtures import atlas_database, atlas_uri, plain_atlas_database

__all__ = ["atlas_database", "atlas_uri", "plain_atlas_database"]
