"""The command line `nmt`: one module for each command, or for a few closely related ones."""
