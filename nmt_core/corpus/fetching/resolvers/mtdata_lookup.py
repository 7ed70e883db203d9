"""Look up ids in the index of mtdata, and print the entries as JSON. `mtdata_index.py` runs this file as a program."""

import argparse
import json
import sys
from typing import Any

_NO_PACKAGE = 3
_SHOWN = 3


def look_up(name: str, index: Any) -> dict[str, Any]:
    """Return the entry of an id, or similar ids under `close` if there is none."""
    from mtdata.entry import DatasetId

    try:
        dataset = DatasetId.parse(name)
    except Exception:  # it raises exceptions of many types
        dataset = None
    if dataset not in index.entries:
        return {"close": _like(name, [str(known) for known in index.entries])}
    entry = index.entries[dataset]
    return {
        "languages": [str(language.lang) for language in entry.did.langs],
        "url": entry.url,
        "ext": entry.ext,
        "in_ext": entry.in_ext,
        "in_paths": entry.in_paths,
        "cols": entry.cols,
        "citations": [index.ref_db.get_bibtex(key).strip() for key in entry.cite or ()],
    }


def _like(name: str, known: list[str]) -> list[str]:
    """Return the ids that share the most parts with a name. difflib would take a minute over all ids."""
    parts = set(name.casefold().split("-"))
    ranked = sorted(known, key=lambda other: -len(parts & set(other.casefold().split("-"))))
    return [other for other in ranked[:_SHOWN] if len(parts & set(other.casefold().split("-"))) > 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Look up ids in the index of mtdata, and print the entries as JSON.")
    parser.add_argument("ids", nargs="+", help="ids of mtdata, such as Statmt-newstest_deen-2014-deu-eng")
    ids = parser.parse_args().ids
    try:
        from mtdata.index import Index
    except ImportError:
        sys.exit(_NO_PACKAGE)
    known = Index.get_instance()
    print(json.dumps({name: look_up(name, known) for name in ids}))
