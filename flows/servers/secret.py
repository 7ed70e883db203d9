"""The secret of Prefect's server: user and password, which pages of other sites and other users do not know."""

import base64
import contextlib
import os
import secrets
from pathlib import Path

from nmt_core.errors import ConfigError

OPEN_PATH = "/nmt-open"
"""Page of our Prefect server that signs a browser in; see `opening_address`."""

_USER = "nmt"


def new_secret() -> str:
    """Return a user and a random password, as Prefect reads them: user:password."""
    return f"{_USER}:{secrets.token_urlsafe(32)}"


def kept_secret(file: Path) -> str:
    """Read the secret that lets clients in to the server of `nmt up`, or make one that only this user can read.

    A file that others can read, or have written, holds no secret: it is made anew.

    Raises:
        ConfigError: the file can be neither read nor written.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            if status.st_uid == os.getuid() and not status.st_mode & 0o077 and (secret := file.read_text().strip()):
                return secret
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{os.getpid()}.partial")
        draft.unlink(missing_ok=True)
        secret = new_secret()
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
            output.write(f"{secret}\n")
        draft.replace(file)
        return secret
    except OSError as error:
        raise ConfigError(f"{file}: the password of the Prefect server cannot be kept there: {error}") from None


def opening_address(prefect_url: str, secret: str) -> str:
    """Return the address that opens Prefect's pages without asking for the password.

    The password comes behind the `#`, which browsers send to no server.
    """
    return f"{prefect_url}{OPEN_PATH}#{base64.b64encode(secret.encode()).decode()}"
