"""Output for people: progress lines on a terminal, Markdown, and tables of reports."""
