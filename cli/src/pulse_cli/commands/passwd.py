"""`pulse passwd`: an entry for the server's PULSE_AUTH_USERS."""

import click

from pulse_cli.command import LocalCommand, Session
from pulse_cli.connection import is_interactive, read_password_file, read_password_stdin

# bcrypt looks at no more of a password, and the server takes no more.
LONGEST = 72


@click.command(cls=LocalCommand)
@click.argument("user")
@click.option("--password-file", metavar="FILE", help="A file with the password.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option(
    "--cost", type=click.IntRange(4, 18), default=12, metavar="N", help="Work, as a power of two. Default: 12."
)
@click.pass_obj
def passwd(session: Session, user: str, password_file: str | None, password_stdin: bool, cost: int) -> None:
    """Make a user's entry for PULSE_AUTH_USERS.

    It is the name and a bcrypt hash of the password. The password is asked for on a terminal. Nothing is sent or
    stored.
    """
    if not user or any(character in ":," or not character.isprintable() for character in user):
        raise click.UsageError("a user's name has no colon, comma or control character in it")
    password = _read_password(user, password_file, password_stdin).encode()
    if len(password) > LONGEST:
        raise click.UsageError(f"a password has at most {LONGEST} bytes; this one has {len(password)}")
    import bcrypt

    entry = f"{user}:{bcrypt.hashpw(password, bcrypt.gensalt(cost)).decode()}"
    if session.output.for_people:
        session.output.line(entry)
    else:
        session.output.record({"user": user, "entry": entry})
    session.output.note("put it into PULSE_AUTH_USERS of the server, in single quotes; commas separate users")


def _read_password(user: str, file: str | None, stdin: bool) -> str:
    if file and stdin:
        raise click.UsageError("--password-file and --password-stdin say the same twice: give one of them")
    if file:
        return read_password_file("--password-file", file)
    if stdin:
        return read_password_stdin()
    if not is_interactive():
        raise click.UsageError("no terminal to ask for the password: give --password-stdin or --password-file")
    return str(click.prompt(f"password of {user}", hide_input=True, confirmation_prompt="again", err=True))
