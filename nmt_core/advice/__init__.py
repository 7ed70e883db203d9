"""Look at text, and advise a recipe that fits it and the machine: what `nmt init` does.

corpora.py      groups the named files into corpora: pairs of halves, files with both sides, dev and test sets
declared.py     reads the languages that a file declares: suffixes, names of columns, mark-up, headers
sample.py       reads the beginning of a corpus, and estimates its size
identified.py   identifies the languages of text, whatever it is called
findings.py     measures the sample: what filters keep, lengths, copies, numbers
opus.py         lists the corpora of OPUS in a pair of languages, without fetching any
vocabulary.py   chooses the size of a vocabulary by the frequency of its pieces
decisions.py    decides the values of a recipe, each with its reason, and asks where a user may decide otherwise
recipe.py       writes the recipe, each line with its reason
"""
