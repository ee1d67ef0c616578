"""Chance that can be repeated: a seed that is told, a time to run, and the number of each case.

PULSE_FUZZ_SEED      where chance begins: any text; drawn, and printed, if it is not set
PULSE_FUZZ_CASE      the number of the case to begin with, as a failure names it
PULSE_FUZZ_SECONDS   how long each test goes on: 8, or 3600 over lunch
"""

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from random import Random

# Drawn into the environment, so that all processes of one test run have the same.
SEED = os.environ.setdefault("PULSE_FUZZ_SEED", str(secrets.randbelow(1 << 32)))
FIRST_CASE = int(os.environ.get("PULSE_FUZZ_CASE", "0"))
SECONDS = float(os.environ.get("PULSE_FUZZ_SECONDS", "8"))

LANES = 4
LONGEST_CASE = 120.0


async def run_cases(name: str, case: Callable[[Random], Awaitable[None]]) -> int:
    """Runs a case again and again, a few at a time, each with chance of its own; how many there were."""
    numbers = itertools.count(FIRST_CASE)
    ends_at = time.monotonic() + SECONDS

    async def lane() -> None:
        while time.monotonic() < ends_at:
            number = next(numbers)
            try:
                async with asyncio.timeout(LONGEST_CASE):
                    await case(Random(f"{SEED} {name} {number}"))
            except Exception as error:
                error.add_note(f"again with: PULSE_FUZZ_SEED={SEED} PULSE_FUZZ_CASE={number}")
                raise

    async with asyncio.TaskGroup() as lanes:
        for _ in range(LANES):
            lanes.create_task(lane())
    return next(numbers) - FIRST_CASE
