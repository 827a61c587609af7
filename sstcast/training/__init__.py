"""Trains models on the windows of a prepared ocean, or on other tasks."""
