"""Import translation models of other programs as bundles.

importer.py      one model from a folder to a bundle, through the gates of `export`
hugging_face.py  Marian, M2M100 and NLLB models as `transformers` stores them
marian.py        `model.npz` of Marian
foreign.py       a model of another program, in one form for all formats
vocabulary.py    SentencePiece models with the ids of this pipeline, and the rows of the model that they stand for
"""
