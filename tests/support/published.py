"""Identities for artifacts that a test must be able to name."""

from itertools import count
from typing import Any

from nmt_core.store.artifacts import Identity, fingerprint_of


def identity_like(stage: str, digits: str, inputs: dict[str, str] | None = None, config: Any = None) -> Identity:
    """Return an identity whose fingerprint begins with these digits. Each digit takes sixteen times as long."""
    for number in count():
        identity = {"stage": stage, "version": number, "config": config or {}, "inputs": inputs or {}}
        if fingerprint_of(identity).startswith(digits):
            return identity
    raise AssertionError
