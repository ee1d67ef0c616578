"""How names in SQL become names in Python."""

import keyword
import re
from collections.abc import Collection

# A method of these names would hide a type in the annotations below it.
METHOD_RESERVED = frozenset({"bool", "bytes", "datetime", "decimal", "float", "int", "list", "models", "str", "uuid"})
# A field would as well; and these two are methods of tuple.
FIELD_RESERVED = METHOD_RESERVED | {"count", "index"}
# The names that a generated method's body uses.
PARAMETER_RESERVED = frozenset({"command_tag", "fetched", "int", "models", "record", "records", "self"})


def snake_case(name: str) -> str:
    """`JobClaim` -> `job_claim`; what is in snake case stays."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def class_name(name: str) -> str:
    """`job_status` or `JobStatus` -> `JobStatus`."""
    return "".join(word.capitalize() for word in snake_case(name).split("_"))


def singular(table: str) -> str:
    """`jobs` -> `job`, by four rules and no dictionary.

    `-ies` becomes `-y`; `-ches`, `-shes`, `-sses` and `-xes` lose `es`; `-ss` and `-us` stay;
    any other `-s` goes.
    """
    if table.endswith("ies"):
        return table[:-3] + "y"
    if table.endswith(("ches", "shes", "sses", "xes")):
        return table[:-2]
    if table.endswith("s") and not table.endswith(("ss", "us")):
        return table[:-1]
    return table


def enum_member(label: str, taken: Collection[str]) -> str:
    """`dead-lettered` -> `DEAD_LETTERED`; a label that gives no identifier gets `VALUE_` before."""
    name = re.sub(r"\W", "_", label).upper()
    if not name.isidentifier() or name.startswith("_"):
        name = f"VALUE_{name.strip('_')}"
    return _with_underscore(name, taken)


def identifier(name: str, *, reserved: Collection[str], taken: Collection[str]) -> str | None:
    """A Python name for a column, parameter or query; None when nothing usable is left of it.

    Keywords, reserved names and names already taken get a trailing underscore.
    """
    cleaned = re.sub(r"\W", "_", name).strip("_")
    if not cleaned.isidentifier():
        return None
    return _with_underscore(cleaned, {*reserved, *taken, *keyword.kwlist})


def _with_underscore(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
