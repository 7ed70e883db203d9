"""Report of a run as one self-contained HTML file: its data, training, scores and cost."""
