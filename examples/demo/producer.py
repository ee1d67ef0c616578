"""The demo's producer: customers who order, a newsletter every minute, and a stock count."""

import asyncio
import itertools
import random
import time
from datetime import timedelta

import pulse
from worker import (
    Newsletter,
    Order,
    Photo,
    Shop,
    charge_card,
    p,
    resize_photo,
    send_receipt,
)

CUSTOMERS = ("ada@example.com", "grace@example.com", "edsger@example.com", "barbara@example.com")


async def take_orders() -> None:
    """An order or two a second; the money comes first."""
    # A number that is new in every run, without keeping one anywhere.
    for number in itertools.count(int(time.time()) % 100_000):
        amount = round(random.uniform(5, 200), 2)
        order = Order(number=number, customer=random.choice(CUSTOMERS), amount=amount)
        await charge_card.enqueue(order, priority=10)
        await send_receipt.enqueue(order)
        if number % 3 == 0:
            await resize_photo.enqueue(Photo(order=number, name=f"holiday-{number}.jpg"))
        await asyncio.sleep(random.uniform(0.3, 1))


async def send_newsletters() -> None:
    """Two hundred jobs in one call, all of them or none."""
    for issue in itertools.count(1):
        readers = [Newsletter(issue=issue, reader=f"reader-{each}") for each in range(200)]
        await p.enqueue_many("send-newsletter", readers, priority=-10)
        print(f"issue {issue} of the newsletter is on its way to {len(readers)} readers")
        await asyncio.sleep(60)


async def main() -> None:
    """Until it is stopped."""
    await p.schedule("count-stock", Shop(city="Berlin"), pulse.Every(timedelta(seconds=20)))
    night = pulse.Cron("0 3 * * *", tz="Europe/Lisbon")
    await p.schedule("count-stock", Shop(city="Lisbon"), night)
    async with asyncio.TaskGroup() as group:
        group.create_task(take_orders())
        group.create_task(send_newsletters())


if __name__ == "__main__":
    asyncio.run(main())
