"""Bundles: exported models that a machine without this pipeline can use.

folder.py  the files of a bundle, its description, its search settings, and checks of its files
opened.py  a bundle in memory: its tokenizers and its graphs
"""
