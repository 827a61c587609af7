"""Training: the loop over epochs and steps, its tasks, checkpoints and devices, and the command `train`."""
