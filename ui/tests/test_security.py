"""What another site, a forger or a curious neighbour may try."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import APIRequestContext, Browser, Page, expect

from .crawler import Form, FormFields, read
from .watch import Watch
from .world import World


@pytest.fixture
def pause_form(visitor: APIRequestContext) -> Form:
    """The form that pauses everything, as it came with a page."""
    page = visitor.get("/").text()
    return next(form for form in read(page).forms if form.action == "/dispatch/pause")


def is_paused(world: World) -> bool:
    """By the table."""
    return bool(world.value("SELECT paused FROM dispatch_control WHERE scope = ''"))


def test_a_form_of_our_own_is_accepted(world: World, visitor: APIRequestContext, pause_form: Form) -> None:
    own = {"Origin": world.url, "Sec-Fetch-Site": "same-origin"}
    answer = visitor.post("/dispatch/pause", form=dict(pause_form.fields), headers=own, max_redirects=0)
    assert answer.status == 303
    assert is_paused(world)
    world.pulse.resume_dispatch()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_form_from_elsewhere_is_refused_even_with_a_right_token(
    world: World, visitor: APIRequestContext, pause_form: Form, headers: dict[str, str]
) -> None:
    answer = visitor.post("/dispatch/pause", form=dict(pause_form.fields), headers=headers, max_redirects=0)
    assert answer.status == 403
    assert not is_paused(world)


@pytest.mark.parametrize("change", ["missing", "empty", "wrong", "of somebody else"])
def test_a_form_without_a_right_token_is_refused(
    browser: Browser, world: World, visitor: APIRequestContext, pause_form: Form, change: str
) -> None:
    fields: FormFields = dict(pause_form.fields)
    match change:
        case "missing":
            del fields["csrf"]
        case "empty":
            fields["csrf"] = ""
        case "wrong":
            fields["csrf"] = str(fields["csrf"])[:-4] + "AAAA"
        case _:
            with browser.new_context(base_url=world.url) as somebody:
                theirs = read(somebody.request.get("/").text()).forms
            fields["csrf"] = next(dict(form.fields)["csrf"] for form in theirs if form.action == "/dispatch/pause")
    answer = visitor.post("/dispatch/pause", form=fields, max_redirects=0)
    assert answer.status == 403
    assert not is_paused(world)


def test_a_browser_that_another_site_sends_here_is_refused(browser: Browser, world: World) -> None:
    trap = f"""<form method=post action="{world.url}/dispatch/pause"><input name=reason value=evil></form>
        <script>document.forms[0].submit()</script>"""
    with browser.new_context() as context:
        context.request.get(f"{world.url}/")
        context.route("http://evil.example/", lambda route: route.fulfill(body=trap, content_type="text/html"))
        page = context.new_page()
        with page.expect_response(f"{world.url}/dispatch/pause") as posted:
            page.goto("http://evil.example/")
        assert posted.value.status == 403
        expect(page.get_by_role("main")).to_contain_text("nothing was done")
    assert not is_paused(world)


def test_a_foreign_name_that_points_here_is_refused(visitor: APIRequestContext) -> None:
    answer = visitor.get("/", headers={"Host": "evil.example"})
    assert answer.status == 421


ANSWERS = {
    "page": ("GET", "/", 200),
    "list": ("GET", "/jobs", 200),
    "health": ("GET", "/healthz", 200),
    "no such page": ("GET", "/nowhere", 404),
    "no such job": ("GET", "/jobs/0199a111-0000-7000-8000-0000000000ff", 404),
    "bad address": ("GET", "/jobs?status=sleeping", 400),
    "no such file": ("GET", "/static/nothing.css", 404),
    "without token": ("POST", "/dispatch/pause", 403),
    "other method": ("PUT", "/jobs", 405),
    "head": ("HEAD", "/", 200),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_answer_has_the_headers(visitor: APIRequestContext, kind: str) -> None:
    method, path, status = ANSWERS[kind]
    form: FormFields | None = {"reason": "x"} if method == "POST" else None
    answer = visitor.fetch(path, method=method, form=form)
    assert answer.status == status
    check_headers(answer.headers)
    assert answer.headers["cache-control"] == "no-store"


def test_files_have_the_headers_too_and_are_kept_by_browsers(visitor: APIRequestContext) -> None:
    files = [link for link in read(visitor.get("/").text()).links if link.startswith("/static/")]
    assert len(files) >= 3
    for file in files:
        answer = visitor.get(file)
        assert answer.status == 200
        check_headers(answer.headers)
        assert "max-age=31536000" in answer.headers["cache-control"], file


def check_headers(headers: dict[str, str]) -> None:
    """What every answer must say."""
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert set(policy.values()) <= {"'none'", "'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "application/json"}, b"{}", 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"x" * (9 << 20), 413),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"reason=%ff", 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&" * 5000, 400),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x", 415),
    ],
    ids=["json", "huge", "not text", "too many fields", "multipart"],
)
def test_what_is_no_form_is_refused(
    visitor: APIRequestContext, headers: dict[str, str], body: bytes, status: int
) -> None:
    answer = visitor.post("/dispatch/pause", headers=headers, data=body)
    assert answer.status == status


def test_the_page_of_another_site_cannot_frame_ours(browser: Browser, world: World) -> None:
    with browser.new_context() as context:
        frame = f'<iframe src="{world.url}/"></iframe>'
        context.route("http://evil.example/", lambda route: route.fulfill(body=frame, content_type="text/html"))
        page = context.new_page()
        page.goto("http://evil.example/")
        expect(page.frame_locator("iframe").get_by_role("main")).to_have_count(0)
        assert urlsplit(page.frames[1].url).scheme == "chrome-error"


def test_pages_hold_no_script_and_no_style_of_their_own(page: Page, watch: Watch) -> None:
    for path in ("/", "/jobs", "/topics", "/schedules", "/schedules/new", "/workers", "/dead-letters"):
        page.goto(path)
        inline = "script:not([src]), style, [style], [onclick], [onload], [onsubmit], [onchange]"
        expect(page.locator(inline)).to_have_count(0)
    assert {urlsplit(request.url).netloc for request in watch.requests} == {urlsplit(page.url).netloc}
