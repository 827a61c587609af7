"""Fitting a model to the windows of a prepared ocean."""
