"""Write the software bill of materials of an image, as CycloneDX 1.6.

    python sbom.py > sbom.cdx.json

It lists the Python packages of this environment and Debian's packages below it, with versions and licences, as both
record them. It has neither a time nor a random number, so the same packages make the same file.
"""

import importlib.metadata
import json
import re
import sys
from pathlib import Path

_STATUS = Path("/var/lib/dpkg/status")
_LONGEST = 100  # characters of a licence: some packages put the whole text there


def bill() -> dict[str, object]:
    """Return the bill of materials."""
    components = sorted([*_python(), *_debian()], key=lambda part: str(part["purl"]))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


def _python() -> list[dict[str, object]]:
    """Return the packages that Python would import. A package that is on the path twice counts once, as the first."""
    found: dict[str, dict[str, object]] = {}
    for package in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        part = _component(name, package.version, f"pkg:pypi/{name}@{package.version}", _licence(package))
        found.setdefault(name, part)
    return list(found.values())


def _licence(package: importlib.metadata.Distribution) -> str:
    """Return a package's licence: the expression, else the classifiers, else the first line of the old field."""
    about = package.metadata
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License")]
    old = (about.get("License") or "").strip().partition("\n")[0]
    return about.get("License-Expression") or " AND ".join(classifiers) or old[:_LONGEST]


def _debian() -> list[dict[str, object]]:
    if not _STATUS.exists():
        return []
    found = []
    for paragraph in _STATUS.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            name, version = fields["Package"], fields["Version"]
            found.append(_component(name, version, f"pkg:deb/debian/{name}@{version}", ""))
    return found


def _component(name: str, version: str, purl: str, licence: str) -> dict[str, object]:
    part: dict[str, object] = {"type": "library", "name": name, "version": version, "purl": purl}
    return part | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
