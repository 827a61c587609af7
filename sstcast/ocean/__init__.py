"""From files of sea surface temperature to tensors."""
