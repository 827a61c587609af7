"""Declarations of data sets; `registry` collects them."""
