"""A protoc plugin: straight-line encode and decode functions for betterproto2's message classes.

The way of a request: `plugin` reads it, `reader` turns descriptors into the `model` and refuses
what we don't support, `order` refuses what contains itself, `module` writes one Python module for
each proto package with the help of `encoder` and `decoder`. What the generated functions share is
in `runtime/`, which is handed out as it is.
"""
