"""The templates, and the few words that they know beyond Jinja's own."""

from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from pulse import ErrorGroup, JobStatus
from pulse_ui import __version__, formats, timings
from pulse_ui.assets import Assets
from pulse_ui.job_query import JobQuery
from pulse_ui.pages.dead_letters import find_group


def exact(text: str) -> Markup:
    """Escaped, and with a CR that survives the reading of the page."""
    return escape(text).replace("\r", Markup("&#13;"))


def jobs_url(filters: dict[str, str]) -> str:
    """The list of jobs with these filters."""
    return JobQuery({name: [text] for name, text in filters.items()}).url()


def workers_url(topic: str) -> str:
    """The workers that serve a topic."""
    return f"/workers?{urlencode({'topic': topic})}"


def dead_letters_url(topic: str) -> str:
    """The dead letters of a topic."""
    return f"/dead-letters?{urlencode({'topic': topic})}"


def group_url(group: ErrorGroup) -> str:
    """The jobs of a group of dead letters."""
    return find_group(group).url()


FILTERS = {
    "number": formats.number,
    "capped": formats.capped,
    "plural": formats.plural,
    "compact": formats.compact,
    "span": formats.span,
    "relative": formats.relative,
    "absolute": formats.absolute,
    "iso": formats.iso,
    "size": formats.size,
    "last_line": formats.last_line,
    "label": formats.label,
    "expression": timings.expression,
    "words": timings.words,
    "zone": timings.zone,
    "local": timings.local,
    "exact": exact,
    "jobs_url": jobs_url,
    "group_url": group_url,
    "workers_url": workers_url,
    "dead_letters_url": dead_letters_url,
}


def make_templates(assets: Assets) -> jinja2.Environment:
    """Everything is escaped, and a name that is not there is an error."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("pulse_ui"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(FILTERS)
    templates.globals.update(asset=assets.url, version=__version__, JobStatus=JobStatus)
    return templates
