"""Messages: what requests and answers hold, as msgspec reads and writes them. OpenAPI is made from these."""

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
    """At most n items of each value of an attribute."""

    n: int
    per: str


class DiversifyRule(Struct, forbid_unknown_fields=True):
    """Items unlike each other, from the best candidates."""

    weight: float
    candidates: int | None = None


class Recommend(Struct, forbid_unknown_fields=True):
    """Who asks, and for what."""

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
    """The question that is asked most: a user, and how many items. It is read in a fraction of the time."""

    user: Id
    k: Annotated[int, Meta(ge=1)] | None = None


class Explain(Recommend, forbid_unknown_fields=True, kw_only=True):
    """Who asks, and about which item."""

    item: Id


class SimilarTo(Struct, forbid_unknown_fields=True):
    """Which items to find others like."""

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
    """An item to add or change, whose id is in the path."""

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
    """Items to add or change, all or none."""

    items: list[ItemOne]
    generation: str | None = None


class UserBody(Struct, forbid_unknown_fields=True):
    """A user to add or change, whose id is in the path."""

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
    """Users to add or change, all or none."""

    users: list[UserOne]
    generation: str | None = None


class Ids(Struct, forbid_unknown_fields=True):
    """What to remove, all or none."""

    ids: list[Id]
    generation: str | None = None


class NewGeneration(Struct, forbid_unknown_fields=True):
    """An empty generation to make."""

    n_factors: Annotated[int, Meta(ge=1)] | None = None
    attributes: dict[str, str] | None = None
    signals: dict[str, float | None] | None = None
    like: str | None = None


# Answers


class Problem(Struct):
    """An error, as RFC 9457 has it."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class Listed(Struct, omit_defaults=True):
    """One list."""

    ids: list[Id]
    scores: list[float]
    scored: int
    certified: bool
    user: Id | UnsetType = UNSET
    item: Id | UnsetType = UNSET
    fields: list[dict[str, Any]] | UnsetType = UNSET


class Lists(Struct):
    """A list for each who asks."""

    generation: str
    version: int
    n_items: int
    lists: list[Listed]
    next: str | UnsetType | None = UNSET


class Near(Struct):
    """What a user has seen or named that is like an item."""

    item: Id
    title: str | None
    cosine: float


class Slot(Struct):
    """A slot that who asks and the item share."""

    slot: int
    query_value: float
    item_value: float
    product: float


class Shared(Struct):
    """What slots search makes of an item."""

    query: int
    item: int
    used: int
    shared: list[Slot]
    partial_score: float
    candidate_rank: int | None
    budget: int


class Bound(Struct):
    """What tile search believes of an item's tile."""

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
    """Some items."""

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
    """A user, in a list."""

    id: Id
    n_seen: int


class Users(Struct):
    """Some users."""

    generation: str
    version: int
    users: list[UserShort]
    next: int | None


class Changed(Struct):
    """What a change did."""

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
    """What there is."""

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
    """How many items were looked at, for a sample of users."""

    generation: str
    version: int
    n_items: int
    n_users: int
    mean: float | None
    median: float | None
    edges: list[float]
    counts: list[int]


class Point(Struct):
    """Requests within a few seconds."""

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
    """Whether the service is well."""

    status: Literal["ok", "starting"]
    live: bool = True
    ready: bool = True
    generation: str | None = None
    version: int | None = None


ENCODER = msgspec.json.Encoder()
RECOMMEND = msgspec.json.Decoder(Recommend)
PLAIN = msgspec.json.Decoder(Plain)
