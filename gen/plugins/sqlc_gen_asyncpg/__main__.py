"""Read sqlc's request from stdin, write the generated files to stdout."""

import base64
import json
import sys

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.plan_models import plan_models
from sqlc_gen_asyncpg.plan_queries import plan_queries
from sqlc_gen_asyncpg.python_types import TypeResolver
from sqlc_gen_asyncpg.render_connection import render_connection
from sqlc_gen_asyncpg.render_models import render_models
from sqlc_gen_asyncpg.render_queries import render_query_module
from sqlc_gen_asyncpg.render_source import PLUGIN_SOURCE, module
from sqlc_gen_asyncpg.request import Request, parse_request


def generate(request: Request) -> dict[str, str]:
    """Return the source of each file by its name, or raise GenerationError."""
    resolver = TypeResolver(request.enums)
    models = plan_models(request, resolver)
    query_modules = plan_queries(request, resolver, models)
    return {
        "__init__.py": module(PLUGIN_SOURCE, [], []),
        "connection.py": render_connection(),
        "models.py": render_models(models),
        **{f"{each.name}.py": render_query_module(each) for each in query_modules},
    }


def main() -> int:
    """Return the exit status; stdout stays empty unless every file could be generated."""
    try:
        files = generate(parse_request(json.load(sys.stdin.buffer)))
    except GenerationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    response = {
        "files": [
            {"name": name, "contents": base64.b64encode(source.encode()).decode()}
            for name, source in sorted(files.items())
        ]
    }
    json.dump(response, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
