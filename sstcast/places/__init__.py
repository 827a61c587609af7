"""Places and series that people bring: their files, outlines, and observations at points."""
