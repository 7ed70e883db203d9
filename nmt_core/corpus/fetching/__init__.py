"""Turn an address in a recipe into bytes in the store.

addresses.py   recognizes the kinds of address, and lists files, folders and patterns of this machine
resolvers/     finds the files of each other kind: OPUS, mtdata, sacreBLEU, Hugging Face, object stores
lockfile.py    records the hash of everything that was ever fetched, beside the recipe
mirror.py      finds files in a local folder, which is searched first
partial.py     stores a partly fetched file, and the information to resume it
fetcher.py     fetches over HTTP: ranges, retries, checks
supply.py      chooses the source of the bytes: the mirror, an earlier download, or the network
progress.py    reports the progress of all files
watching.py    detects changed text at the addresses without fetching it
"""
