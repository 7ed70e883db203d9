"""Search over one step protocol, whatever computes the step: by beam, greedy, or by sampling."""
