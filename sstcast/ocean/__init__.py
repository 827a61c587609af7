"""Turns files of sea surface temperature into tensors."""
