"""Messages: the bodies of requests and answers, as msgspec structs. The OpenAPI schemas are generated from them."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Id: TypeAlias = int | str
Vector: TypeAlias = list[float]


class Liked(Struct, forbid_unknown_fields=True):
    """An item, and how much it is liked."""

    item: Id
    weight: float = 1.0


class AtMostRule(Struct, forbid_unknown_fields=True):
    """At most n items per value of an attribute."""

    n: int
    per: str


class DiversifyRule(Struct, forbid_unknown_fields=True):
    """Items that differ from each other, chosen from the best candidates."""

    weight: float
    candidates: int | None = None


class Recommend(Struct, forbid_unknown_fields=True):
    """Whom to recommend to, and how."""

    user: Id | None = None
    users: list[Id] | None = None
    vector: Vector | None = None
    vectors: list[Vector] | None = None
    liked: list[Id | Liked] | None = None
    like: list[Id] | None = None
    dislike: list[Id] | None = None
    k: Annotated[int, Meta(ge=1)] | None = None
    exclude_seen: bool = True
    where: dict[str, Any] | None = None
    boosts: dict[str, float] | None = None
    now: str | float | None = None
    exclude: list[Id] | None = None
    allow: list[Id] | None = None
    after: str | None = None
    pages: bool = False
    exact: bool = False
    at_most: AtMostRule | None = None
    diversify: DiversifyRule | None = None
    interests: Literal["best", "sum"] = "best"
    regularization: float = 0.01
    alpha: float = 1.0
    generation: str | None = None
    fields: list[str] | None = None


class Plain(Struct, forbid_unknown_fields=True):
    """The most common request: a user and k. It decodes in a fraction of the time of `Recommend`."""

    user: Id
    k: Annotated[int, Meta(ge=1)] | None = None


class Explain(Recommend, forbid_unknown_fields=True, kw_only=True):
    """A recommendation request, and the item to explain."""

    item: Id


class SimilarTo(Struct, forbid_unknown_fields=True):
    """Items, and how to find others like them."""

    item: Id | None = None
    items: list[Id] | None = None
    k: Annotated[int, Meta(ge=1)] | None = None
    metric: Literal["cosine", "inner product"] = "cosine"
    where: dict[str, Any] | None = None
    exclude: list[Id] | None = None
    allow: list[Id] | None = None
    exact: bool = False
    generation: str | None = None
    fields: list[str] | None = None


class ItemBody(Struct, forbid_unknown_fields=True):
    """An item to add or change; its id is in the path."""

    factors: Vector | None = None
    like: list[Id] | None = None
    liked_by: list[Id] | None = None
    attributes: dict[str, Any] | None = None
    signals: dict[str, float | str] | None = None
    payload: Any = UNSET
    generation: str | None = None


class ItemOne(Struct, forbid_unknown_fields=True):
    """An item to add or change."""

    id: Id
    factors: Vector | None = None
    like: list[Id] | None = None
    liked_by: list[Id] | None = None
    attributes: dict[str, Any] | None = None
    signals: dict[str, float | str] | None = None
    payload: Any = UNSET


class PutItems(Struct, forbid_unknown_fields=True):
    """Items to add or change; either all are or none is."""

    items: list[ItemOne]
    generation: str | None = None


class UserBody(Struct, forbid_unknown_fields=True):
    """A user to add or change; its id is in the path."""

    factors: list[float | Vector] | None = None
    liked: list[Id] | None = None
    seen: list[Id] | None = None
    weights: list[float] | None = None
    generation: str | None = None


class UserOne(Struct, forbid_unknown_fields=True):
    """A user to add or change."""

    id: Id
    factors: list[float | Vector] | None = None
    liked: list[Id] | None = None
    seen: list[Id] | None = None
    weights: list[float] | None = None


class PutUsers(Struct, forbid_unknown_fields=True):
    """Users to add or change; either all are or none is."""

    users: list[UserOne]
    generation: str | None = None


class Ids(Struct, forbid_unknown_fields=True):
    """Ids to remove; either all are or none is."""

    ids: list[Id]
    generation: str | None = None


class NewGeneration(Struct, forbid_unknown_fields=True):
    """An empty generation to create."""

    n_factors: Annotated[int, Meta(ge=1)] | None = None
    attributes: dict[str, str] | None = None
    signals: dict[str, float | None] | None = None
    like: str | None = None


# Answers


class Problem(Struct):
    """An error, in the format of RFC 9457."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class Listed(Struct, omit_defaults=True):
    """One list of items, best first."""

    ids: list[Id]
    scores: list[float]
    scored: int
    certified: bool
    user: Id | UnsetType = UNSET
    item: Id | UnsetType = UNSET
    fields: list[dict[str, Any]] | UnsetType = UNSET


class Lists(Struct):
    """One list per user, vector or item."""

    generation: str
    version: int
    n_items: int
    lists: list[Listed]
    next: str | UnsetType | None = UNSET


class Near(Struct):
    """A similar item that the user has seen or named."""

    item: Id
    title: str | None
    cosine: float


class Slot(Struct):
    """A slot that the query and the item share."""

    slot: int
    query_value: float
    item_value: float
    product: float


class Shared(Struct):
    """How slots search scores an item."""

    query: int
    item: int
    used: int
    shared: list[Slot]
    partial_score: float
    candidate_rank: int | None
    budget: int


class Bound(Struct):
    """How tile search bounds the scores of an item's tile."""

    centre_score: float
    spread: float
    reach: float
    believed: float


class Explained(Struct):
    """Why an item is, or is not, recommended."""

    generation: str
    version: int
    item: Id
    title: str | None
    score: float
    parts: dict[str, float]
    recommended: bool
    place: int | None
    rank: int
    n_items: int
    n_left: int
    rank_left: int | None
    last_score: float | None
    method: str
    left_out_by: list[str]
    near: list[Near]
    slots: Shared
    tile: Bound | None
    sentences: list[str]


class Item(Struct, omit_defaults=True):
    """An item."""

    id: Id
    attributes: dict[str, Any]
    signals: dict[str, float]
    payload: Any
    factors: Vector | UnsetType = UNSET
    generation: str | UnsetType = UNSET
    version: int | UnsetType = UNSET


class Items(Struct):
    """A page of items."""

    generation: str
    version: int
    items: list[Item]
    next: int | None


class User(Struct):
    """A user."""

    generation: str
    version: int
    id: Id
    factors: list[float | Vector] | None
    seen: list[Id] | None
    weights: list[float] | None
    titles: list[str | None] | None


class UserShort(Struct):
    """A user, as an entry of a list."""

    id: Id
    n_seen: int


class Users(Struct):
    """A page of users."""

    generation: str
    version: int
    users: list[UserShort]
    next: int | None


class Changed(Struct):
    """The result of a change."""

    generation: str
    version: int
    added: int | UnsetType = UNSET
    updated: int | UnsetType = UNSET
    removed: int | UnsetType = UNSET


class GenerationInfo(Struct):
    """A generation."""

    name: str
    live: bool
    ready: bool
    n_items: int
    n_users: int
    n_factors: int
    version: int
    created: str
    published: str | None


class Generations(Struct):
    """All generations."""

    live: str | None
    version: int
    generations: list[GenerationInfo]


class Live(Struct):
    """Which generation is live."""

    live: str | None
    version: int


class Count(Struct):
    """How many items have a value."""

    value: str | int | bool
    count: int


class Column(Struct):
    """An attribute of the items."""

    name: str
    kind: str
    n_missing: int
    n_values: int
    top: list[Count]
    min: float | str | None
    max: float | str | None


class SignalInfo(Struct):
    """A signal of the items."""

    name: str
    min: float
    max: float
    mean: float
    half_life: float | None


class Stats(Struct):
    """Statistics of the store and the service."""

    generation: str | None
    version: int
    writable: bool
    n_items: int
    n_users: int
    n_factors: int
    n_seen: int
    item_ids: str | None
    user_ids: str | None
    memory: dict[str, int]
    nbytes: int
    plan: str | None
    plan_details: str | None
    stale: bool
    titled: bool
    attributes: list[Column]
    signals: list[SignalInfo]
    generations: list[GenerationInfo]
    limits: dict[str, float]
    tessella: str
    sqlite: str
    workers: int
    uptime: float


class Scored(Struct):
    """How many items were scored, for a sample of users."""

    generation: str
    version: int
    n_items: int
    n_users: int
    mean: float | None
    median: float | None
    edges: list[float]
    counts: list[int]


class Point(Struct):
    """Requests within one step of time."""

    time: int
    requests: int
    errors: int
    rejected: int
    p50_ms: float | None
    p99_ms: float | None


class Traffic(Struct):
    """Requests of the last minutes."""

    step: int
    now: float
    points: list[Point]


class Health(Struct):
    """Whether the service is alive and ready."""

    status: Literal["ok", "starting"]
    live: bool = True
    ready: bool = True
    generation: str | None = None
    version: int | None = None


ENCODER = msgspec.json.Encoder()
RECOMMEND = msgspec.json.Decoder(Recommend)
PLAIN = msgspec.json.Decoder(Plain)
