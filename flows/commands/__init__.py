"""What the commands of `nmt` do. Each module imports what is slow only when it is called."""
