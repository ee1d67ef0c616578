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
second into rows. Python 3.11, eight columns, nanoseconds a row, without / with an enum column:

    NamedTuple by tuple.__new__             209 / 243
    slotted dataclass (mutable)             218 / 262
    NamedTuple by _make                     292 / -
    NamedTuple by its constructor           343 / 362
    frozen slotted dataclass                890 / 963

An enum column costs 35 ns by a dict of its values, 370 ns by calling the enum class.
"""
