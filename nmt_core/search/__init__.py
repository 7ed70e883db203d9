"""Search for translations over one step protocol, by beam search, greedy search or sampling."""
