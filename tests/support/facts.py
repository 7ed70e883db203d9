"""The facts that a message must contain: place, value and remedy. The words between them may change."""

import contextlib
import re
from collections.abc import Iterator

import pytest


def missing(message: str, *facts: str) -> list[str]:
    """Return the facts, regular expressions, that a message does not hold."""
    return [fact for fact in facts if not re.search(fact, message)]


@contextlib.contextmanager
def raises(kind: type[BaseException], *facts: str) -> Iterator[None]:
    """Expect an error of a class in the block, whose message contains all facts."""
    with pytest.raises(kind) as caught:
        yield
    assert missing(str(caught.value), *facts) == [], str(caught.value)
