"""The order of things: messages after those they contain, and no message inside itself."""

from collections.abc import Iterable

from protoc_gen_codec.model import Kind, Message, Package, TypeName, UnsupportedError


def check_order(packages: Iterable[Package]) -> None:
    """Refuses messages that contain themselves and packages that need each other.

    Without recursion in the types the depth of the decoders' calls is bounded, whatever bytes come.
    """
    packages = list(packages)
    messages = {message.type_name: message for one in packages for message in one.messages}
    finished: set[TypeName] = set()
    for message in messages.values():
        _visit(message, messages, [], finished)
    _check_imports(packages)


def _visit(
    message: Message,
    messages: dict[TypeName, Message],
    path: list[TypeName],
    finished: set[TypeName],
) -> None:
    if message.type_name in path:
        cycle = [*path[path.index(message.type_name) :], message.type_name]
        names = " -> ".join(type_name.name for type_name in cycle)
        raise UnsupportedError(f"recursive messages are not supported: {names}")
    if message.type_name in finished:
        return
    for type_name in message.contained():
        _visit(messages[type_name], messages, [*path, message.type_name], finished)
    finished.add(message.type_name)


def _check_imports(packages: list[Package]) -> None:
    """One module a package: packages that import each other would be modules that do."""
    needs = {
        package.name: {
            type_name.package
            for message in package.messages
            for type_name in message.contained()
            if type_name.package != package.name
        }
        for package in packages
    }
    loaded: set[str] = set()
    while len(loaded) < len(needs):
        ready = {name for name, others in needs.items() if name not in loaded and others <= loaded}
        if not ready:
            names = ", ".join(sorted(set(needs) - loaded))
            raise UnsupportedError(f"packages that need each other are not supported: {names}")
        loaded |= ready


def merged_types(packages: Iterable[Package]) -> set[TypeName]:
    """The messages that some field holds one of.

    Such a field may occur again on the wire, and the occurrences are merged: their decoders can go
    on from an earlier one. In a list every occurrence is an element of its own.
    """
    found: set[TypeName] = set()
    for package in packages:
        for message in package.messages:
            for field in message.all_fields():
                if field.kind is Kind.MESSAGE and field.type_name and not field.repeated:
                    found.add(field.type_name)
    return found
