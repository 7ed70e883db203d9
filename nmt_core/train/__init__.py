"""Training through torchrun: launch, loop, checkpoints, averaging."""
