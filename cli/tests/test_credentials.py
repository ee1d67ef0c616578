"""Who we are: flag over environment over profile; secrets stay where their owner put them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcrypt
import pytest

SECRET = "s3cret, with: colon"  # passwords may hold what names may not


@pytest.fixture(scope="module")
def guarded(start_server: Callable[..., str]) -> str:
    """A server with users: one by hash, one in the clear."""
    hashed = bcrypt.hashpw(SECRET.encode(), bcrypt.gensalt(4)).decode()
    return start_server(auth_users=f"ops:{hashed},dev:devpass")


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def write_config(program: Any, profiles: dict[str, Any], mode: int = 0o600) -> None:
    program.config.parent.mkdir(parents=True, exist_ok=True)
    program.config.write_text(json.dumps({"profiles": profiles}))
    program.config.chmod(mode)


def test_no_credentials_and_wrong_ones_are_exit_code_4(stranger: Any, guarded: str) -> None:
    said = stranger.refused(4, "jobs", "list", "--addr", guarded)
    assert "credentials are missing" in said
    assert "pulse save creds" in said
    wrong = {"PULSE_ADDR": guarded, "PULSE_USER": "ops", "PULSE_PASSWORD": "wrong"}
    for arguments in (("jobs", "list"), ("submit", "t", "1"), ("dispatch", "pause"), ("doctor", "-o", "json")):
        done = stranger.run(*arguments, env=wrong)
        assert done.code == 4
        assert "the user or the password is wrong" in done.err + done.out
    terminal = stranger.on_terminal("jobs", "list", env=wrong)
    assert terminal.wait() == 4
    assert terminal.text.startswith("error: the user or the password is wrong")


def test_every_way_to_give_a_password(stranger: Any, guarded: str, password_file: Path) -> None:
    stranger.env["PULSE_ADDR"] = guarded
    user = ("--user", "ops")
    assert stranger.ok("topics", "list", *user, "--password-file", str(password_file)).code == 0
    assert stranger.ok("topics", "list", *user, "--password-stdin", stdin=f"{SECRET}\n").code == 0
    done = stranger.ok("topics", "list", *user, "--password", SECRET)
    assert "warning: others can see a password on the command line" in done.err
    by_environment = {"PULSE_USER": "ops", "PULSE_PASSWORD_FILE": str(password_file)}
    assert stranger.ok("topics", "list", env=by_environment).code == 0
    # Options work before the command too, and the nearer one wins.
    assert stranger.ok("--user", "nobody", "topics", "list", *user, "--password-file", str(password_file)).code == 0
    password_file.chmod(0o644)
    assert "chmod 600" in stranger.ok("topics", "list", *user, "--password-file", str(password_file)).err


def test_a_terminal_is_asked_for_the_password(stranger: Any, guarded: str) -> None:
    terminal = stranger.on_terminal("topics", "list", "--addr", guarded, "--user", "ops")
    terminal.expect("password of ops")
    terminal.send(SECRET)
    assert terminal.wait() == 0
    assert SECRET not in terminal.text
    assert "a user (ops) without a password" in stranger.refused(4, "topics", "list", "--user", "ops")


def test_ways_that_do_not_go_together(stranger: Any, tmp_path: Path) -> None:
    both = ("--user", "a", "--password", "b", "--password-stdin")
    assert "say the same twice" in stranger.refused(2, "topics", "list", *both)
    assert "a password without a user" in stranger.refused(4, "topics", "list", env={"PULSE_PASSWORD": "x"})
    missing = ("--user", "a", "--password-file", str(tmp_path / "none"))
    assert "No such file" in stranger.refused(4, "topics", "list", *missing)
    assert "standard input is empty" in stranger.refused(4, "topics", "list", "--user", "a", "--password-stdin")


def test_flag_over_environment_over_profile(stranger: Any, guarded: str) -> None:
    good = {"addr": guarded, "user": "ops", "password": SECRET}
    write_config(stranger, {"default": good, "broken": {**good, "password": "wrong"}})
    assert stranger.run("topics", "list").code == 0
    assert stranger.run("topics", "list", env={"PULSE_ADDR": "127.0.0.1:1"}).code == 5
    assert stranger.run("topics", "list", "--addr", guarded, env={"PULSE_ADDR": "127.0.0.1:1"}).code == 0
    assert stranger.run("topics", "list", env={"PULSE_PASSWORD": "wrong"}).code == 4
    assert stranger.run("topics", "list", env={"PULSE_PROFILE": "broken"}).code == 4
    assert stranger.run("topics", "list", "--profile", "default", env={"PULSE_PROFILE": "broken"}).code == 0
    as_dev = stranger.run("doctor", "-o", "json", env={"PULSE_USER": "dev", "PULSE_PASSWORD": "devpass"})
    assert "known as dev" in as_dev.out


def test_saved_secrets_go_to_their_own_server_and_user_only(stranger: Any, guarded: str) -> None:
    write_config(stranger, {"default": {"addr": "elsewhere:50051", "user": "ops", "password": SECRET}})
    assert "credentials are missing" in stranger.refused(4, "topics", "list", "--addr", guarded)
    assert stranger.run("topics", "list", "--addr", guarded, "--profile", "default").code == 0
    write_config(stranger, {"default": {"addr": guarded, "user": "ops", "password": SECRET}})
    assert "a user (dev) without a password" in stranger.refused(4, "topics", "list", "--user", "dev")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_credentials_file_that_others_can_read_is_refused(stranger: Any, guarded: str, mode: int) -> None:
    write_config(stranger, {"default": {"addr": guarded, "user": "ops", "password": SECRET}}, mode)
    said = stranger.refused(4, "topics", "list")
    assert f"run `chmod 600 {stranger.config}`" in said
    assert SECRET not in said
    stranger.config.chmod(0o600)
    assert stranger.run("topics", "list").code == 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "pulse save creds"),
        ("[]", "is not of the form"),
        ('{"profiles": {"default": {"adress": "x"}}}', "unknown adress"),
        ('{"profiles": {"default": {"addr": 1}}}', "addr is not a string"),
        ('{"profiles": {"default": []}}', "is not an object"),
    ],
)
def test_a_broken_credentials_file_is_named(stranger: Any, content: str, told: str) -> None:
    write_config(stranger, {})
    stranger.config.write_text(content)
    said = stranger.refused(2, "topics", "list")
    assert told in said
    assert str(stranger.config) in said


def test_save_creds_in_a_script(stranger: Any, guarded: str) -> None:
    arguments = ("save", "creds", "--addr", guarded, "--user", "ops", "--password-stdin")
    assert stranger.run(*arguments, stdin="wrong").code == 4
    assert not stranger.config.exists()
    done = stranger.ok(*arguments, stdin=SECRET)
    assert "saved" in done.err
    assert stranger.config.stat().st_mode & 0o777 == 0o600
    assert stranger.config.parent.stat().st_mode & 0o777 == 0o700
    assert stranger.run("topics", "list").code == 0
    second = ("save", "creds", "--profile", "second", "--addr", "127.0.0.1:1", "--no-check", "-o", "json")
    saved = stranger.ok(*second).json()
    assert saved == {"profile": "second", "path": str(stranger.config), "addr": "127.0.0.1:1", "user": None}
    profiles = json.loads(stranger.config.read_text())["profiles"]
    assert profiles == {
        "default": {"addr": guarded, "user": "ops", "password": SECRET},
        "second": {"addr": "127.0.0.1:1"},
    }
    assert stranger.run("topics", "list", "--profile", "second").code == 5
    assert list(stranger.config.parent.iterdir()) == [stranger.config]


def test_save_creds_asks_on_a_terminal(stranger: Any, guarded: str) -> None:
    terminal = stranger.on_terminal("save", "creds")
    terminal.expect("server [localhost:50051]")
    terminal.send(guarded)
    terminal.expect("user (empty: none)")
    terminal.send("ops")
    terminal.expect("password of ops")
    terminal.send(SECRET)
    assert terminal.wait() == 0
    assert SECRET not in terminal.text
    assert stranger.run("topics", "list").code == 0


def test_passwd_makes_an_entry_that_the_server_takes(
    stranger: Any, start_server: Callable[..., str], password_file: Path
) -> None:
    by_file = stranger.ok("passwd", "ann", "--password-file", str(password_file), "--cost", "4")
    by_stdin = stranger.ok("passwd", "bob", "--password-stdin", "--cost", "4", "-o", "json", stdin="bobpass").json()
    terminal = stranger.on_terminal("passwd", "cid", "--cost", "4", columns=200)
    terminal.expect("password of cid")
    terminal.send("cidpass")
    terminal.expect("again")
    terminal.send("cidpass")
    assert terminal.wait() == 0
    (by_prompt,) = (line for line in terminal.text.splitlines() if line.startswith("cid:$2"))
    assert by_file.out.startswith("ann:$2b$04$")
    assert "PULSE_AUTH_USERS" in by_file.err
    address = start_server(auth_users=f"{by_file.out.strip()},{by_stdin['entry']},{by_prompt}")
    for user, password in (("ann", SECRET), ("bob", "bobpass"), ("cid", "cidpass")):
        env = {"PULSE_ADDR": address, "PULSE_USER": user, "PULSE_PASSWORD": password}
        assert stranger.run("topics", "list", env=env).code == 0
    assert "at most 72 bytes" in stranger.refused(2, "passwd", "ann", "--password-stdin", stdin="x" * 73)
