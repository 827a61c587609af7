"""How files are written, opened and described."""
