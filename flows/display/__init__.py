"""Output for people: live lines on a terminal, Markdown, and tables of reports."""
