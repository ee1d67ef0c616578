"""Every page there is, by name: for tests of what must hold on all of them."""

from .world import World

# In the order of the menu.
LISTS = {
    "overview": "/",
    "jobs": "/jobs",
    "dead letters": "/dead-letters",
    "topics": "/topics",
    "schedules": "/schedules",
    "workers": "/workers",
}
# These need no data either.
ALWAYS = {**LISTS, "new schedule": "/schedules/new"}
DETAILS = (
    "running job",
    "waiting job",
    "failing job",
    "dead job",
    "schedule",
    "edit schedule",
    "retry all",
    "delete one",
    "no such job",
)
EVERYWHERE = (*ALWAYS, *DETAILS)


def path_of(name: str, world: World) -> str:
    """The path of a page in the shop."""
    if name in ALWAYS:
        return ALWAYS[name]
    jobs = {"running job": "RUNNING", "waiting job": "PENDING", "failing job": "RETRYING", "dead job": "DEAD_LETTERED"}
    if name in jobs:
        # The latest with the most to show.
        query = "SELECT id FROM jobs WHERE status = $1 ORDER BY attempts DESC, seq DESC LIMIT 1"
        return f"/jobs/{world.value(query, jobs[name])}"
    schedule = world.value("SELECT id FROM schedules WHERE name = 'count stock, Lisbon'")
    finished = world.value("SELECT id FROM jobs WHERE status = 'COMPLETED' ORDER BY seq DESC LIMIT 1")
    return {
        "schedule": f"/schedules/{schedule}",
        "edit schedule": f"/schedules/{schedule}/edit",
        "retry all": "/jobs/bulk?action=retry&status=dead_lettered",
        "delete one": f"/jobs/bulk?action=delete&id={finished}",
        "no such job": "/jobs/0199a111-0000-7000-8000-0000000000ff",
    }[name]
