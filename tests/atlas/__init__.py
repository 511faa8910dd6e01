"""An emulation of Atlas Vector Search over the embedded server: a process of its own, for tests alone."""
