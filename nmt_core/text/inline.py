"""Text that stands in a sentence and belongs to no language: placeholders, tags and addresses.

The patterns as text have the same meaning for `re` and for polars, so they look neither ahead nor behind.
"""

import re

# printf's %s, %-5.2f, %1$d and %(name)s; %%; %1; {0}, {name} and ${path}. A flag must be followed by a width, and a
# space is not a flag: neither "100 % sure" nor "%-formats" holds a placeholder. %L is GCC's.
_WIDTH = r"(?:[-+#0]*(?:[0-9]+|\*))?(?:\.(?:[0-9]+|\*))?"
_PRINTF = rf"%(?:[0-9]+\$)?{_WIDTH}(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcspnL]"
PLACEHOLDER = rf"%%|{_PRINTF}|%\([\w.]+\)[a-z]|%[0-9]+|\$?\{{[\w.]*\}}"

# A name in angle brackets may be a placeholder for a human ("cp <file>"), which is translated. A closing tag, an empty
# element or a tag with attributes is markup.
TAG = r"</[A-Za-z][\w:-]*\s*>|<[A-Za-z][\w:-]*(?:\s*/|\s[^<>]*=[^<>]*)>"

ADDRESS = r"(?:https?|ftp)://[^\s<>\"]+|www\.[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"

INLINE = re.compile(rf"{ADDRESS}|{TAG}|</?[A-Za-z][\w:-]*>|{PLACEHOLDER}")
"""All of them, and tags without attributes, which `TAG` leaves out."""
