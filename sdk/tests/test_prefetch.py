"""How many jobs a worker holds beyond those that run."""

from pulse._worker.prefetch import MOST, Prefetch


class Load:
    """A worker's counters, set by the test."""

    def __init__(self, fixed: int | None = None, concurrency: int = 10) -> None:
        self.started = 0
        self.active: list[None] = []
        self.now = 0.0
        self.prefetch = Prefetch(fixed, concurrency, lambda: self.started, self.active)
        self.prefetch.retune(self.now)

    def pass_second(self, *, started: int, running: int = 0) -> bool:
        self.now += 1
        self.started += started
        self.active[:] = [None] * running
        return self.prefetch.retune(self.now)


def test_slow_handlers_get_nothing_ahead() -> None:
    load = Load()
    assert not load.pass_second(started=10, running=10)
    assert load.prefetch.value == 0


def test_cheap_handlers_get_what_they_do_in_50_ms() -> None:
    load = Load()
    assert load.pass_second(started=10_000)
    assert load.prefetch.value == 500
    assert not load.pass_second(started=12_000)
    assert load.pass_second(started=1_000_000)
    assert load.prefetch.value == MOST


def test_it_shrinks_when_handlers_get_slow_and_not_when_there_is_little_to_do() -> None:
    load = Load()
    load.pass_second(started=10_000)
    assert not load.pass_second(started=1, running=1)
    assert load.prefetch.value == 500
    assert load.pass_second(started=1, running=10)
    assert load.prefetch.value == 0


def test_it_is_thought_over_once_a_second_at_most() -> None:
    load = Load()
    load.pass_second(started=10_000)
    load.started += 100_000
    assert not load.prefetch.retune(load.now + 0.5)


def test_a_fixed_number_stays() -> None:
    load = Load(fixed=7)
    assert not load.pass_second(started=100_000)
    assert load.prefetch.value == 7
