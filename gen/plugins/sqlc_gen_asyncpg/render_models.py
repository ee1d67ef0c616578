"""Write models.py: enums, then tables, each sorted by name."""

import json

from sqlc_gen_asyncpg.plan import EnumClass, Models
from sqlc_gen_asyncpg.render_source import INDENT, docstring, module, row_class, type_imports


def render_models(models: Models) -> str:
    """The source of models.py."""
    tables = sorted(models.tables.values(), key=lambda each: each.name)
    imports = type_imports(field.type for table in tables for field in table.fields)
    if models.enums:
        imports = sorted([*imports, "import enum"])
    if tables:
        imports.append("from typing import NamedTuple")
    blocks = [_enum_class(each) for each in sorted(models.enums, key=lambda each: each.name)]
    blocks += [row_class(table, enum_prefix="") for table in tables]
    return module(models.source, [imports], blocks)


def _enum_class(enum: EnumClass) -> str:
    return "\n".join(
        [
            f"class {enum.name}(enum.StrEnum):",
            *docstring(enum.docstring, INDENT),
            "",
            *(f"{INDENT}{name} = {json.dumps(label, ensure_ascii=False)}" for name, label in enum.members),
        ]
    )
