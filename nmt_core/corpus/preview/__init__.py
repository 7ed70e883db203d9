"""Preview what `clean` would drop, on a sample of the text, as an HTML page on which thresholds can be moved.

sample.py     draws pairs from the beginning of each corpus
judgement.py  applies every filter to every pair, whatever the others say
page.py       writes the page
"""
