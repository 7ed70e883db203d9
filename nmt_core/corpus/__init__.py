"""Fetch, clean and split text, and account for every row. For users, `docs/how-to/add-text.md` describes it.

download.py       runs the stage `download`: fetching/ gets the files, or toy/ makes a corpus
sources.py        identifies a download by the content of its files
index.py          reads `corpora.json`, the list of the downloaded corpora, their files and their licences
reading.py        reads the rows of a download; nmt_core/formats parses the files
clean.py          runs the stage `clean`, which cuts the rows into shards
shard.py          cleans one shard
scripts.py        counts words and weighs letters by the script of the text
normalize.py      spells equal sentences equally, and computes the keys by which sentences count as copies
cleaning/         decides which pairs are dropped: filters/, thresholds.py, language_id.py, scorers.py (programs of
                  others), cross_entropy.py with ngrams.py (closeness to a domain), unchecked.py (inactive filters)
duplicates/       finds copies (exact.py) and near copies (minhash.py) among all shards, through files (shuffle.py);
                  directions.py tells apart what serves other pairs of languages
held_out/         draws dev and test text (carve.py), and keeps such text out of training (decontaminate.py), whatever
                  marks hide it (folding.py)
preview/          shows what the filters would drop from a sample, on a page where thresholds can be moved
funnel.py         counts, measures and samples the pairs for the report
split.py          runs the stage `split`
mix.py            decides how often each pair is trained on

Files are written through nmt_core/store/storage.py, so that a file appears only when it is complete, on this machine or
in any store that fsspec supports.
"""
