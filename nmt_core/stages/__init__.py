"""The shape of a stage, and the table of all stages."""
