"""The one page in which a run ends: what it read, learnt, scored and cost, in a file that needs nothing else."""
