"""Fields of the forms in Prefect's pages."""

from typing import Any

_LEVELS = 6  # more than a form has: parameters, section, subsection, option
_LATER = "() => new Promise(done => setTimeout(done, 20))"


def fill(field: Any, value: str) -> None:
    """Type a value into a field, and return when the whole form has it.

    Each level of a form hands a change to the next one after a delay of 10 ms. Submit sends the value from before if it
    is pressed earlier than that, which a person cannot, and a test can.
    """
    field.fill(value)
    for _ in range(_LEVELS):
        field.page.evaluate(_LATER)  # a timer that is due after the one of a level, and so runs after it
