"""TLS at the server: 1.2 or newer, HTTP/2."""

import logging
import ssl
from pathlib import Path

from pulsed.errors import StartupError
from pulsed.settings import Settings

logger = logging.getLogger(__name__)


def load_tls(settings: Settings) -> ssl.SSLContext | None:
    """The context for the certificate and key in the settings; None without them."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    check_key_is_private(settings.tls_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise StartupError(f"PULSE_TLS_CERT, PULSE_TLS_KEY: can't be loaded: {error.strerror or error}") from None
    return context


def _no_password() -> str:
    """A key with a passphrase would be asked for on the terminal, and a server has none."""
    raise StartupError("PULSE_TLS_KEY: the key is encrypted: write it without a passphrase, and chmod 600")


def check_key_is_private(path: Path) -> None:
    """Warns about a key that others can read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise StartupError(f"PULSE_TLS_KEY: {path}: {error.strerror}") from None
    if mode & 0o077:
        logger.warning("the TLS key can be read by others: chmod 600", extra={"path": str(path)})
