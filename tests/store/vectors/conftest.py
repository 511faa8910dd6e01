"""The emulated Atlas for the tests of the engines; it is a plain server to the exact one."""

from tests.atlas.fixtures import atlas_database, atlas_uri, plain_atlas_database

__all__ = ["atlas_database", "atlas_uri", "plain_atlas_database"]
