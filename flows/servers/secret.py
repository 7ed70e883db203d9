"""Secret of Prefect's server: user and password, which pages of other sites and other users do not know."""

import base64
import contextlib
import os
import secrets
from pathlib import Path

from nmt_core.errors import ConfigError
from nmt_core.store.atomic import write_atomically

OPEN_PATH = "/nmt-open"
"""Page of our Prefect server that signs a browser in. See `opening_address`."""

_USER = "nmt"


def new_secret() -> str:
    """Return a user and a random password in Prefect's format, user:password."""
    return f"{_USER}:{secrets.token_urlsafe(32)}"


def kept_secret(file: Path) -> str:
    """Return the secret of the server of `nmt up`, or create one that only this user can read.

    A file that others can read, or that another user owns, is replaced by a new secret.

    Raises:
        ConfigError: The file can be neither read nor written.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            if status.st_uid == os.getuid() and not status.st_mode & 0o077 and (secret := file.read_text().strip()):
                return secret
        file.parent.mkdir(parents=True, exist_ok=True)
        secret = new_secret()
        write_atomically(file, f"{secret}\n", mode=0o600)
        return secret
    except OSError as error:
        raise ConfigError(
            f"{file}: the password of the Prefect server cannot be stored ({error}): make the folder writable"
        ) from None


def opening_address(prefect_url: str, secret: str) -> str:
    """Return the address that opens Prefect's pages without a prompt for the password.

    The password is in the fragment after `#`, which browsers do not send to servers.
    """
    return f"{prefect_url}{OPEN_PATH}#{base64.b64encode(secret.encode()).decode()}"
