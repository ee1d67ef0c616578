"""The program `pulse-ui`."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress

import uvicorn

import pulse
from pulse_ui import __version__
from pulse_ui.app import connect, make_app
from pulse_ui.settings import MEANINGS, PREFIX, Settings, SettingsError, load_settings

logger = logging.getLogger("pulse_ui")

# The SDK's, which say where the server is.
CONNECTION = {
    "PULSE_ADDR": "The pulse server: host:port, or https://host:port for TLS. [localhost:50051]",
    "PULSE_TLS": "1: use TLS to the server, checked by the system's authorities.",
    "PULSE_TLS_CA": "Use TLS to the server, checked by this authority (PEM).",
}


def make_parser() -> argparse.ArgumentParser:
    """The command line: one option for each setting but the secret, which others could read there."""
    described = {PREFIX + name.upper(): text for name, text in MEANINGS.items()} | CONNECTION
    parser = argparse.ArgumentParser(
        prog="pulse-ui",
        description="The dashboard of the pulse job queue.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="settings, in the environment or as options such as --addr:\n"
        + "\n".join(
            textwrap.fill(f"{name:<26} {text}", 100, initial_indent="  ", subsequent_indent=" " * 29)
            for name, text in described.items()
        )
        + "\n\nWhere the server has users, the dashboard asks for one of them; PULSE_USER is not used here.",
    )
    parser.add_argument("--version", action="version", version=f"pulse-ui {__version__}")
    for name, text in MEANINGS.items():
        if name != "secret":
            parser.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=text)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until SIGTERM or SIGINT; what keeps it from starting is one line and a non-zero exit."""
    flags = vars(make_parser().parse_args(arguments))
    try:
        settings = load_settings(os.environ, flags)
        app = make_app(settings)
    except (SettingsError, pulse.ConfigurationError) as error:
        sys.exit(f"pulse-ui: {error}")
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=settings.log_level.upper())
    with listen(settings) as listener:
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="warning",
                # Addresses of pages hold what people look for.
                access_log=False,
                server_header=False,
                forwarded_allow_ips=settings.trusted_proxies,
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
                timeout_graceful_shutdown=5,
            )
        )
        # uvicorn stops in order and then repeats the signal: what that does is up to us, and it is a good end.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        _announce(settings, listener.getsockname()[1])
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=[listener]))


def listen(settings: Settings) -> socket.socket:
    """The socket to serve on."""
    host, port = settings.listen
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        sys.exit(f"pulse-ui: PULSE_UI_ADDR: can't listen on {settings.addr}: {error.strerror or error}")
    # Connections inherit it. asyncio leaves it out for sockets made here, and the end of a page would wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _announce(settings: Settings, port: int) -> None:
    host = settings.listen[0] or "0.0.0.0"  # noqa: S104 - as it was asked for
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.tls_cert else "http"
    _say(f"serving on {scheme}://{shown}:{port}, for the pulse server at {connect().address}")
    if not settings.is_loopback and settings.tls_cert is None:
        _say("warning: others can reach this, and without TLS here or in a proxy, passwords travel readable")


def _say(text: str) -> None:
    print(f"pulse-ui: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
