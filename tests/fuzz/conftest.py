"""The seed of a run, where everybody sees it."""

from fuzz.cases import SECONDS, SEED


def pytest_report_header() -> str:
    return f"fuzz: PULSE_FUZZ_SEED={SEED} PULSE_FUZZ_SECONDS={SECONDS:g}"
