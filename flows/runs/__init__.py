"""Runs: their selection of stages, summary, cost and origin."""
