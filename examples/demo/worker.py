"""The demo's worker: the background work of a small photo shop.

Some of it fails on purpose, because that is what a queue is for: mail that is tried again, and now
and then a card that is declined for good.
"""

import asyncio
import logging
import random
import time

from pydantic import BaseModel

import pulse

p = pulse.Pulse(concurrency=20)  # PULSE_ADDR says where the server is


class Order(BaseModel):
    """What a customer bought."""

    number: int
    customer: str
    amount: float


class Photo(BaseModel):
    """A picture to print."""

    order: int
    name: str


class Newsletter(BaseModel):
    """One reader of one issue."""

    issue: int
    reader: str


class Shop(BaseModel):
    """Which of the shops."""

    city: str


@p.task("charge-card", timeout=10)
async def charge_card(order: Order, job: pulse.Job) -> None:
    """Where another attempt is of no use it says so, and the job goes to the dead letters."""
    await asyncio.sleep(random.uniform(0.05, 0.3))
    if order.number % 25 == 0:
        print(f"the bank declined the card of order {order.number}: to the dead letters")
        raise pulse.Discard("the bank declined the card")
    print(f"charged {order.amount:.2f} for order {order.number}")


@p.task("send-receipt", max_attempts=8)
async def send_receipt(order: Order, job: pulse.Job) -> None:
    """Mail servers say no once in a while; any exception would do, this one also sets the wait."""
    await asyncio.sleep(random.uniform(0.02, 0.1))
    if random.random() < 0.1:
        print(f"the mail server is busy: receipt of order {order.number} again in 3 s")
        raise pulse.Retry("the mail server is busy", after=3)
    print(f"receipt of order {order.number} sent to {order.customer}, attempt {job.attempt}")


@p.task("resize-photo")
def resize_photo(photo: Photo, job: pulse.Job) -> None:
    """A plain function: it runs in a thread, so it may block."""
    time.sleep(random.uniform(0.1, 0.4))
    print(f"resized {photo.name} of order {photo.order}")


@p.task("send-newsletter")
async def send_newsletter(newsletter: Newsletter, job: pulse.Job) -> None:
    """Comes two hundred at a time, with a low priority: it never delays the rest."""
    await asyncio.sleep(0.02)


@p.task("count-stock")
async def count_stock(shop: Shop, job: pulse.Job) -> None:
    """Runs on a schedule."""
    await asyncio.sleep(random.uniform(0.5, 2))
    print(f"counted the stock in {shop.city}")


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    asyncio.run(p.run())
