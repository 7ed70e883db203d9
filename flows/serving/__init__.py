"""A long-running HTTP service that translates with one model: `nmt serve`."""
