"""A server with users: the dashboard asks for one, acts as that one, and shows nothing to anybody else."""

import base64

import pytest
from playwright.sync_api import APIRequestContext, BrowserContext, Page, expect

from pulse_ui.app import ACTIONS, PAGES

from .axe import serious_findings
from .conftest import OpenContext, OpenWorld
from .crawler import FormFields, read
from .screens import PHONE, WALL, keep_pictures
from .watch import Watch
from .world import World

USERS = {"ada": "engine-no-1", "grace": "bugs & <moths>"}


@pytest.fixture(scope="module")
def world(open_world: OpenWorld) -> World:
    """Two may come in."""
    return open_world(users=USERS)


def sign_in(page: Page, user: str = "ada", password: str = USERS["ada"]) -> None:
    """Fill in the form that is there and send it."""
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def session_cookie(context: BrowserContext) -> dict[str, object]:
    """The cookie that says who it is."""
    (cookie,) = (dict(each) for each in context.cookies() if str(each.get("name")).startswith("pulse_ui_"))
    return cookie


def test_who_comes_to_a_page_signs_in_and_lands_there(page: Page) -> None:
    page.goto("/jobs?status=dead_lettered")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(page)
    expect(page).to_have_url("/jobs?status=dead_lettered")
    expect(page.get_by_role("banner")).to_contain_text("ada")


@pytest.mark.parametrize(
    ("user", "password"), [("ada", "wrong"), ("nobody", "engine-no-1"), ("ada", "x" * 5000), ("a:b", "x")], ids=str
)
def test_wrong_credentials_are_refused_and_the_name_stays(page: Page, watch: Watch, user: str, password: str) -> None:
    watch.expect_status(401)
    page.goto("/sign-in")
    sign_in(page, user, password)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("User")).to_have_value(user)
    expect(page.get_by_label("Password")).to_have_value("")
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_what_is_done_is_done_as_that_user(page: Page, world: World) -> None:
    page.goto("/")
    sign_in(page, "grace", USERS["grace"])
    page.get_by_role("button", name="Pause dispatch…").click()
    page.get_by_label("Reason").fill("lunch")
    page.get_by_role("dialog").get_by_role("button", name="Pause dispatch").click()
    expect(page.get_by_role("status")).to_contain_text("paused")
    status = world.pulse.dispatch_status()
    assert (status.paused, status.reason, status.everything.paused_by) == (True, "lunch", "grace")
    world.pulse.resume_dispatch()


def test_signing_out_ends_the_session_for_good(page: Page) -> None:
    page.goto("/")
    sign_in(page)
    old = page.context.cookies()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.context.clear_cookies()
    page.context.add_cookies([{key: each[key] for key in ("name", "value", "domain", "path")} for each in old])  # type: ignore[misc]
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_cookie_is_for_this_site_alone_and_holds_no_password(page: Page) -> None:
    page.goto("/")
    before = session_cookie(page.context)["value"]
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    cookie = session_cookie(page.context)
    assert cookie["httpOnly"]
    assert cookie["sameSite"] in ("Lax", "Strict")
    assert cookie["value"] != before, "the session before the sign-in must not become the one after"
    for part in str(cookie["value"]).split("."):
        readable = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        assert b"ada" not in readable
        assert USERS["ada"].encode() not in readable


@pytest.mark.parametrize("change", ["unsigned", "forged", "cut", "nonsense"])
def test_a_cookie_that_is_not_ours_is_worth_nothing(page: Page, change: str) -> None:
    page.goto("/")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    cookie = session_cookie(page.context)
    text, _, signature = str(cookie["value"]).partition(".")
    value = {
        "unsigned": text,
        "forged": f"{text}.{signature[:-3]}AAA",
        "cut": str(cookie["value"])[:10],
        "nonsense": "%00%ff.x",
    }[change]
    page.context.add_cookies([{"name": str(cookie["name"]), "value": value, "url": page.url}])
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def fill_in(path: str) -> str:
    """A path for a route."""
    return path.replace("{job_id}", "0199a111-0000-7000-8000-0000000000ff").replace(
        "{schedule_id}", "0199a111-0000-7000-8000-0000000000ff"
    )


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/sign-in"])
@pytest.mark.parametrize("live", [False, True], ids=["page", "live part"])
def test_every_page_is_closed_without_a_user(visitor: APIRequestContext, path: str, live: bool) -> None:
    headers = {"HX-Request": "true"} if live else {}
    answer = visitor.get(fill_in(path), headers=headers, max_redirects=0)
    if live:
        assert (answer.status, answer.text()) == (401, "")
        assert answer.headers["hx-redirect"].startswith("/sign-in")
    else:
        assert answer.status == 303
        assert answer.headers["location"].startswith("/sign-in?next=")


@pytest.mark.parametrize("path", [path for path in ACTIONS if path not in ("/sign-in", "/sign-out")])
def test_every_action_is_closed_without_a_user(visitor: APIRequestContext, path: str) -> None:
    forms = read(visitor.get("/sign-in").text()).forms
    token = next(dict(form.fields)["csrf"] for form in forms if form.action == "/sign-in")
    fields: FormFields = {"csrf": token, "topic": "t", "action": "delete", "status": "completed", "priority": "1"}
    answer = visitor.post(fill_in(path), form=fields, max_redirects=0)
    assert answer.status == 303
    assert answer.headers["location"].startswith("/sign-in")


def test_the_form_can_be_used_by_everybody(page: Page) -> None:
    page.goto("/sign-in")
    assert serious_findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious_findings(page) == []
    for size in (PHONE, WALL):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    keep_pictures(page, "sign-in")


def test_health_needs_no_user(visitor: APIRequestContext) -> None:
    assert visitor.get("/healthz").ok


@pytest.mark.parametrize("following", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:1"])
def test_signing_in_leads_nowhere_else(page: Page, following: str) -> None:
    page.goto(f"/sign-in?next={following}")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_session_is_over_in_time(open_world: OpenWorld, open_context: OpenContext, watch: Watch) -> None:
    watch.expect_status(401)
    brief = open_world(users=USERS, ui_session_ttl="1s")
    page = open_context(base_url=brief.url).new_page()
    page.goto("/workers")
    sign_in(page)
    # The live part asks again by itself, and leads to the form when the second is over.
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
