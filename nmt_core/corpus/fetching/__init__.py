"""From an address in a recipe to bytes in the store.

addresses.py   what kinds of address there are; files, folders and patterns of this machine
resolvers/     what an address of each other kind stands for: OPUS, mtdata, sacreBLEU, Hugging Face, object stores
lockfile.py    the hash of everything that was ever fetched, beside the recipe
mirror.py      a folder that is looked into first
partial.py     a file that has come in part, and what it is a part of
fetcher.py     HTTP: ranges, pauses, checks
supply.py      where the bytes come from: the mirror, an earlier download, the network
progress.py    how far all of them are
"""
