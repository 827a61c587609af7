"""What runs every day."""
