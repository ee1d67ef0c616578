"""Google's implementation of the same messages, and the plugin run on a contract for tests.

Nothing is imported from generated `_pb2` modules: `pulse.v1` of those would be in the way of the SDK's `pulse`.
The classes are made from descriptors in a pool of their own.
"""
