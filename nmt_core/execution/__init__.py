"""Processes: pools of workers, torchrun, and the end of processes."""
