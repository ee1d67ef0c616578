"""Sign in and out, where the server has users."""

from starlette.responses import Response

import pulse
from pulse_ui.flash import Flash
from pulse_ui.forms import Form
from pulse_ui.problems import says
from pulse_ui.visit import Visit, local_path


async def show(visit: Visit) -> Response:
    """GET /sign-in"""
    following = local_path(visit.request.query_params.get("next", "")) or "/"
    try:
        await visit.client.server_info()
    except pulse.Unauthenticated:
        return visit.render("sign_in.html", None, following=following, user="", error="")
    return visit.redirect(following)


async def sign_in(visit: Visit, form: Form) -> Response:
    """POST /sign-in"""
    following = local_path(form.get("next")) or "/"
    user, password = form.get("user"), form.raw("password")
    error = ""
    if not user or not password:
        error = "Give a user and a password."
    elif ":" in user:
        error = "A user's name has no colon in it."
    else:
        try:
            visitor = await visit.sign_in(user, password)
        except pulse.Unauthenticated as refusal:
            error = f"{says(refusal).capitalize()}."
    if error:
        return visit.render("sign_in.html", None, status=401, following=following, user=user, error=error)
    await visit.sign_out()  # of whoever was signed in before
    response = visit.redirect(following)
    visit.set_visitor(response, visitor)
    return response


async def sign_out(visit: Visit, form: Form) -> Response:
    """POST /sign-out"""
    await visit.sign_out()
    return visit.redirect("/sign-in", Flash("You are signed out."))
