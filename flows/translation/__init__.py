"""Translation jobs on files."""
