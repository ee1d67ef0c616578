"""The protoc side of it: a request on standard input, the generated files on standard output."""

import sys

from betterproto2_compiler.lib.google.protobuf.compiler import (
    CodeGeneratorRequest,
    CodeGeneratorResponse,
    CodeGeneratorResponseFeature,
    CodeGeneratorResponseFile,
)

from protoc_gen_codec.model import UnsupportedError
from protoc_gen_codec.module import init_module, package_module, runtime_files
from protoc_gen_codec.order import check_order, merged_types
from protoc_gen_codec.reader import read_packages


def main() -> None:
    """Answers one request."""
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))


def answer(request: bytes) -> bytes:
    """A CodeGeneratorResponse. A refusal is an answer too: protoc and buf print it and fail."""
    response = CodeGeneratorResponse(supported_features=int(CodeGeneratorResponseFeature.PROTO3_OPTIONAL))
    try:
        for name, content in generate(CodeGeneratorRequest.parse(request)).items():
            response.file.append(CodeGeneratorResponseFile(name=name, content=content))
    except UnsupportedError as error:
        response.error = f"protoc_gen_codec: {error}"
    return bytes(response)


def generate(request: CodeGeneratorRequest) -> dict[str, str]:
    """The files by name, in a fixed order; the same request always gives the same files."""
    packages = read_packages(request)
    check_order(packages)
    merged = merged_types(packages)
    files = {f"{package.module}.py": package_module(package, merged) for package in packages}
    files["__init__.py"] = init_module(packages)
    return dict(sorted((files | runtime_files()).items()))
