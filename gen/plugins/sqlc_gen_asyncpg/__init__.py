"""A sqlc process plugin that writes typed asyncpg code.

Input: sqlc's code generation request as JSON on stdin. Output: its response as JSON on stdout,
or one line on stderr and exit status 1, in which case sqlc writes no file.

It writes `models.py` (every enum and table), `connection.py` (what a querier asks of asyncpg),
and a module for each query file with the SQL, the row classes and an `AsyncQuerier`.

What sqlc cannot express is said in lines of a query's comment:

    -- nullable: oldest, name          these result columns can be NULL (sqlc calls a cast NOT NULL)
    -- nullable elements: run_ats      the elements of these arrays, in or out, can be NULL

Naming a column or parameter that is not there is an error. The rest of the comment becomes the
method's docstring, the comment at the top of a file (a blank line after it) that of the module.

Rows are NamedTuples built by `tuple.__new__`, because a claim or a list turns 50,000 records a
second into rows. Nanoseconds a row of eight columns, without and with an enum among them (Python
3.11, asyncpg's records, the best of 40 interleaved rounds in one run):

    NamedTuple by tuple.__new__             209    254
    slotted dataclass, which is mutable     240    294
    NamedTuple by _make                     302    332
    NamedTuple by its constructor           333    359
    frozen slotted dataclass                962    988

The enum is looked up in a dict of its labels; calling the enum class makes the 254 a 604.
"""
