"""Google's implementation of the same messages, and our plugin run on a contract made for tests.

Google's classes are made from descriptors in a pool of their own, without generated `_pb2` modules:
a module `pulse.v1` would be in the way of the SDK's `pulse`.
"""

import atexit
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grpc_tools  # type: ignore[import-untyped]
from betterproto2_compiler.compile.naming import pythonize_class_name
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.compiler import plugin_pb2  # type: ignore[import-untyped]
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "gen/plugins/protoc_gen_codec"
GOLDEN = Path(__file__).parent / "protos"


@dataclass(frozen=True)
class Case:
    """One message, with everything that can read and write it."""

    full_name: str
    cls: type[Any]
    stock: type[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    # Each generated package has its own CodecError.
    error: type[ValueError]

    @property
    def descriptor(self) -> Any:
        return self.stock.DESCRIPTOR

    def __repr__(self) -> str:
        return self.full_name


@cache
def contract_cases() -> list[Case]:
    """Every message of the contract, and the codecs that are installed."""
    return list(_cases("pulse_gen", describe(ROOT / "proto")))


@cache
def golden_cases() -> list[Case]:
    """Every message of the test's own contract, through the plugin as it is now."""
    described = describe(GOLDEN)
    folder = Path(tempfile.mkdtemp(prefix="pulse-codec-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    request = plugin_request(described)
    stubs = run_plugin(request, "-m", "betterproto2_compiler.plugin")
    codecs = run_plugin(request, str(PLUGIN))
    assert not codecs.error, codecs.error
    for name, response in (("rpc", stubs), ("codec", codecs)):
        for file in response.file:
            path = folder / "golden_gen" / name / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content)
    sys.path.insert(0, str(folder))
    return list(_cases("golden_gen", described))


def case(full_name: str) -> Case:
    """The case of one message."""
    cases = golden_cases() if full_name.startswith("golden.") else contract_cases()
    return next(one for one in cases if one.full_name == full_name)


def describe(folder: Path) -> Any:
    """The descriptors of all proto files below a folder, and of those that they import."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))
    google = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "descriptors"
        # betterproto2's compiler fails without source info.
        options = ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}"]
        status = protoc.main(["protoc", f"-I{folder}", f"-I{google}", *options, *files])
        assert status == 0, f"protoc failed on {folder}"
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def plugin_request(described: Any) -> Any:
    """What protoc would send to a plugin."""
    request = plugin_pb2.CodeGeneratorRequest(proto_file=described.file)
    request.file_to_generate.extend(file.name for file in described.file if not file.name.startswith("google/"))
    return request


def run_plugin(request: Any, *command: str) -> Any:
    """The answer of a plugin that is run by this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, *command],
        input=request.SerializeToString(deterministic=True),
        env=os.environ | {"PATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return plugin_pb2.CodeGeneratorResponse.FromString(done.stdout)


def _cases(package: str, described: Any) -> Iterator[Case]:
    pool = descriptor_pool.DescriptorPool()
    error = importlib.import_module(f"{package}.codec").CodecError
    for file in described.file:
        pool.Add(file)
    for file in described.file:
        if file.package == "google.protobuf":
            continue
        classes = importlib.import_module(f"{package}.rpc.{file.package}")
        codecs = importlib.import_module(f"{package}.codec.{file.package.replace('.', '_')}")
        for name in _names(file.message_type, ""):
            python_name = pythonize_class_name(name)
            full_name = f"{file.package}.{name}"
            descriptor = pool.FindMessageTypeByName(full_name)
            yield Case(
                full_name,
                getattr(classes, python_name),
                message_factory.GetMessageClass(descriptor),
                getattr(codecs, f"encode_{python_name}"),
                getattr(codecs, f"decode_{python_name}"),
                error,
            )


def _names(descriptors: Any, prefix: str) -> Iterator[str]:
    for descriptor in descriptors:
        if not descriptor.options.map_entry:
            yield f"{prefix}{descriptor.name}"
            yield from _names(descriptor.nested_type, f"{prefix}{descriptor.name}.")
