"""A bar on standard error while something takes long; nothing where nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pulse_cli.output import Output

# Below this it is over before it is read.
WORTH_A_BAR = 200


@contextmanager
def progress(output: Output, total: int | None, unit: str = "jobs") -> Iterator[Callable[[int], None]]:
    """Gives the function that is told how many more are done. Without a total, the bar only counts."""
    if not output.animated or (total is not None and total < WORTH_A_BAR):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=total)
        yield lambda count: bar.advance(task, count)
