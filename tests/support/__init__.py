"""Machinery of the tests: forked processes, homes from templates, waiting, costs, order, and what a change reaches."""
