"""Training with torchrun: launch, loop, checkpoints, averaging."""
