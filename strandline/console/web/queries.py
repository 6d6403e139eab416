"""Values that a browser sends: each is read within bounds, or refused with a sentence (400)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

ModelT = TypeVar("ModelT", bound=BaseModel)

SHOWN_CHARS_MAX: Final = 100
FORM_FIELDS_MAX: Final = 1_000
FORM: Final = "application/x-www-form-urlencoded"


def whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A whole number of the query. Raises HTTPException 400."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return default
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not low <= int(given) <= high:
        raise _bad(name, given, f"a whole number from {low} to {high}")
    return int(given)


def text(request: Request, name: str, chars_max: int, default: str = "") -> str:
    """A text of the query. Raises HTTPException 400."""
    given = request.query_params.get(name, default)
    if len(given) > chars_max:
        raise _bad(name, given, f"at most {chars_max} characters")
    return given


def one_of(request: Request, name: str, allowed: Collection[str]) -> str:
    """One of these values, or empty. Raises HTTPException 400."""
    given = request.query_params.get(name, "")
    if given and given not in allowed:
        raise _bad(name, given, f"one of {', '.join(allowed)}")
    return given


def parsed(model: type[ModelT], values: Mapping[str, str]) -> ModelT:
    """A query or a form as a model. Raises HTTPException 400 that names the first bad value."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "values"
        raise _bad(name, str(first["input"]), first["msg"]) from None


async def form(request: Request) -> dict[str, str]:
    """The fields of a form, each once. Raises HTTPException 400, 415."""
    return form_fields(request.headers, await request.body())


def form_fields(headers: Headers, body: bytes) -> dict[str, str]:
    """As `form`, of a body that was read."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise HTTPException(415, f"a form is {FORM}, not {kind[:SHOWN_CHARS_MAX]!r}")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict"
        )
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    return dict(pairs)


def query_link(request: Request, **changes: object) -> str:
    """The same page with another query: `changes` are set, and those that are None left out."""
    values: dict[str, object] = {k: v for k, v in request.query_params.items() if k != "part"}
    values |= changes
    return "?" + urlencode({name: value for name, value in values.items() if value is not None})


def _bad(name: str, given: str, wanted: str) -> HTTPException:
    shown = given if len(given) <= SHOWN_CHARS_MAX else f"{given[:SHOWN_CHARS_MAX]}…"
    return HTTPException(400, f"{name} = {shown!r}: {wanted}")
