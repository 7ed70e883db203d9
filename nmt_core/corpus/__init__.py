"""Parallel text: fetched, cleaned and split, every row of it accounted for. README.md says what users see of it.

download.py       the stage `download`; fetching/ does it, sources.py says what was fetched, toy/ makes a corpus instead
reading.py        the rows of what was fetched; formats/ reads files of every kind
clean.py          the stage `clean`, which cuts the rows into shards; shard.py cleans one:
  normalize.py      the same sentence, always spelt the same way, and keys under which sentences count as the same
  filters/          what is dropped and why; profiles.py knows the thresholds, languages.py the language of a sentence,
                    scorers.py the programs of others
  decontaminate.py  text that dev and test sets share
  dedup.py          copies among all shards, and near.py near-copies, by way of the files of shuffle.py
  funnel.py         counts, histograms and samples: the report
split.py          the stage `split`; carve.py draws dev and test text, mix.py weighs the corpora
storage.py        files that appear only when they are whole, on this machine or in any store that fsspec knows
"""
