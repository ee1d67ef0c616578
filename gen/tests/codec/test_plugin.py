"""The plugin itself: the same files each time, clean ones, and a clear word on what it can't do."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .reference import GOLDEN, PLUGIN, ROOT, describe, plugin_request, run_plugin

HEAD = """\
syntax = "proto3";
package test.v1;
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
"""

UNSUPPORTED = {
    "test.v1.A.b: google.protobuf.Any is not supported": "message A { google.protobuf.Any b = 1; }",
    "test.v1.A.b: google.protobuf.StringValue is not supported": (
        "message A { repeated google.protobuf.StringValue b = 1; }"
    ),
    "test.v1.A.b: google.protobuf.NullValue is not supported": (
        "message A { google.protobuf.NullValue b = 1; }"
    ),
    "test.v1.A.value: google.protobuf.Struct is not supported": (
        "message A { map<string, google.protobuf.Struct> b = 1; }"
    ),
    "test.v1.A.b: packed=false is not supported": (
        "message A { repeated int32 b = 1 [packed = false]; }"
    ),
    "recursive messages are not supported: A -> A": "message A { A a = 1; }",
    "recursive messages are not supported: A -> B -> C -> A": (
        "message A { repeated B b = 1; } message B { map<int32, C> c = 1; }"
        " message C { oneof o { A a = 1; } }"
    ),
    "a.proto: extensions are not supported": (
        'import "google/protobuf/descriptor.proto";'
        " extend google.protobuf.FieldOptions { string note = 50000; }"
    ),
}


def answer(folder: Path, source: str) -> Any:
    (folder / "a.proto").write_text(source)
    return run_plugin(plugin_request(describe(folder)), str(PLUGIN))


@pytest.mark.filterwarnings("ignore:.*unused")
@pytest.mark.parametrize(("reason", "source"), UNSUPPORTED.items(), ids=UNSUPPORTED)
def test_what_is_not_supported_stops_the_generation(
    tmp_path: Path, reason: str, source: str
) -> None:
    response = answer(tmp_path, HEAD + source)
    assert response.error == f"protoc_gen_codec: {reason}"
    assert not response.file


def test_only_proto3_is_supported(tmp_path: Path) -> None:
    group = "message A { optional group B = 1 { optional int32 c = 1; } }"
    response = answer(tmp_path, f'syntax = "proto2"; package test.v1; {group}')
    assert response.error == "protoc_gen_codec: a.proto: only proto3 is supported"


def test_a_file_without_package_is_not_supported(tmp_path: Path) -> None:
    response = answer(tmp_path, 'syntax = "proto3"; message A {}')
    assert "without package" in response.error


def test_packages_that_need_each_other_are_not_supported(tmp_path: Path) -> None:
    files = {
        "a.proto": 'package a; import "b.proto"; message A { b.B b = 1; }',
        "b.proto": 'package b; import "c.proto"; message B { a.C c = 1; }',
        "c.proto": "package a; message C {}",
    }
    for name, source in files.items():
        (tmp_path / name).write_text(f'syntax = "proto3"; {source}')
    response = run_plugin(plugin_request(describe(tmp_path)), str(PLUGIN))
    reason = "packages that need each other are not supported: a, b"
    assert response.error == f"protoc_gen_codec: {reason}"


def test_two_types_of_one_name_are_not_supported(tmp_path: Path) -> None:
    files = {
        "a.proto": 'package a; import "b.proto"; message A { b.Same one = 1; } message Same {}',
        "b.proto": "package b; message Same {}",
    }
    for name, source in files.items():
        (tmp_path / name).write_text(f'syntax = "proto3"; {source}')
    response = run_plugin(plugin_request(describe(tmp_path)), str(PLUGIN))
    assert "one module uses two types Same" in response.error


@pytest.mark.parametrize("folder", [ROOT / "proto", GOLDEN], ids=["contract", "golden"])
def test_the_same_request_gives_the_same_files(folder: Path) -> None:
    request = plugin_request(describe(folder))
    first, second = (run_plugin(request, str(PLUGIN)) for _ in range(2))
    assert first == second
    # The order of files on protoc's command line says nothing about the contract.
    names = sorted(request.file_to_generate, reverse=True)
    del request.file_to_generate[:]
    request.file_to_generate.extend(names)
    assert run_plugin(request, str(PLUGIN)) == first


def test_it_runs_as_a_module_too() -> None:
    request = plugin_request(describe(GOLDEN)).SerializeToString()
    runs = [
        subprocess.run(
            [sys.executable, *command],
            input=request,
            env=os.environ | {"PYTHONPATH": str(PLUGIN.parent)},
            capture_output=True,
            check=True,
        ).stdout
        for command in (["-m", "protoc_gen_codec"], [str(PLUGIN)])
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("folder", [ROOT / "proto", GOLDEN], ids=["contract", "golden"])
def test_generated_code_is_clean(tmp_path: Path, folder: Path) -> None:
    response = run_plugin(plugin_request(describe(folder)), str(PLUGIN))
    for file in response.file:
        assert file.content.startswith("# Generated by protoc_gen_codec from proto/. Do not edit")
        (tmp_path / file.name).write_text(file.content)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--isolated", "--no-cache", "--quiet"]
    width = ["--line-length=100", "--target-version=py311"]
    subprocess.run([*ruff, "format", *settings, *width, str(tmp_path)], check=True)
    rules = "--select=E,F,I,UP,B,SIM,RUF"
    checked = subprocess.run(
        [*ruff, "check", *settings, *width, rules, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
