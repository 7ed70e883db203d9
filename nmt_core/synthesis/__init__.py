"""Synthetic training text: the stage `synthesise`, in which trained models translate text.

teachers.py     the models that translate, with their identity
texts.py        step 1: the sentences to translate, divided among the teachers
translations.py step 2: a job for each teacher (`jobs`), unless an earlier artifact has its translations
synthesise.py   the stage
judge.py        step 3: choose, filter and decontaminate the translations, shard by shard

The artifact has the layout of `split`, whose place it takes for later stages.
"""
