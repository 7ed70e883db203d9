"""Processes: pools of workers, torchrun, and how processes end."""
