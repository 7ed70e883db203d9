"""Beam search over one step protocol, whatever computes the step."""
