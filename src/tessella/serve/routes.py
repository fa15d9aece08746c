"""Routes: every address of the service, what it takes and gives, and who may ask."""

from typing import Any, NamedTuple

from tessella.serve import messages as m

ID = {"id": ("An id.", {"type": "string"})}
NAME = {"name": ("The name of a generation.", {"type": "string"})}
_GENERATION = ("generation", "Which model; the live one if left out.", {"type": "string"})
_PAGE = (
    ("limit", "How many, 1 to 1,000.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}),
    ("after", "The `next` of the page before.", {"type": "integer", "minimum": -1}),
)


class Route(NamedTuple):
    """One address and method."""

    method: str
    path: str
    name: str  # of the function that answers
    summary: str
    body: type[Any] | None = None
    answer: type[Any] | None = None
    writes: bool = False
    query: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    statuses: tuple[int, ...] = ()
    arrow: bool = False

    @property
    def params(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The parts of the path."""
        return (ID if "{id}" in self.path else {}) | (NAME if "{name}" in self.path else {})


_READ = (404, 409, 422)
_WRITE = (400, 404, 409, 413, 415, 422)
ROUTES = (
    Route("POST", "/v1/recommend", "recommend", "Recommend items to users, vectors, or by likes.", m.Recommend, m.Lists,
          statuses=_WRITE, arrow=True),
    Route("POST", "/v1/similar", "similar", "Find the items most like some.", m.SimilarTo, m.Lists, statuses=_WRITE),
    Route("POST", "/v1/explain", "explain", "Why an item is, or is not, recommended.", m.Explain, m.Explained,
          statuses=_WRITE),
    Route("GET", "/v1/items", "items", "List items, or find them by title.", None, m.Items, statuses=(*_READ, 413),
          query=(*_PAGE, ("query", "A part of the title, or an id.", {"type": "string"}),
                 ("ids", "Ids, separated by commas.", {"type": "string"}), _GENERATION)),
    Route("PUT", "/v1/items", "put_items", "Add or change items, all or none.", m.PutItems, m.Changed, writes=True,
          statuses=_WRITE, arrow=True),
    Route("DELETE", "/v1/items", "delete_items", "Remove items, all or none.", m.Ids, m.Changed, writes=True,
          statuses=_WRITE),
    Route("GET", "/v1/items/{id}", "item", "One item.", None, m.Item, statuses=_READ, query=(_GENERATION,)),
    Route("PUT", "/v1/items/{id}", "put_item", "Add or change an item.", m.ItemBody, m.Changed, writes=True,
          statuses=_WRITE),
    Route("DELETE", "/v1/items/{id}", "delete_item", "Remove an item.", None, m.Changed, writes=True, statuses=_READ,
          query=(_GENERATION,)),
    Route("GET", "/v1/users", "users", "List users.", None, m.Users, statuses=_READ,
          query=(*_PAGE, ("query", "How the id begins.", {"type": "string"}), _GENERATION)),
    Route("PUT", "/v1/users", "put_users", "Add or change users, all or none.", m.PutUsers, m.Changed, writes=True,
          statuses=_WRITE, arrow=True),
    Route("DELETE", "/v1/users", "delete_users", "Remove users, all or none.", m.Ids, m.Changed, writes=True,
          statuses=_WRITE),
    Route("GET", "/v1/users/{id}", "user", "One user.", None, m.User, statuses=_READ, query=(_GENERATION,)),
    Route("PUT", "/v1/users/{id}", "put_user", "Add or change a user.", m.UserBody, m.Changed, writes=True,
          statuses=_WRITE),
    Route("DELETE", "/v1/users/{id}", "delete_user", "Remove a user.", None, m.Changed, writes=True, statuses=_READ,
          query=(_GENERATION,)),
    Route("GET", "/v1/generations", "generations", "List generations.", None, m.Generations),
    Route("PUT", "/v1/generations/{name}", "make_generation", "Make an empty generation.", m.NewGeneration, m.Live,
          writes=True, statuses=_WRITE),
    Route("DELETE", "/v1/generations/{name}", "drop", "Drop a generation that is not live.", None, m.Live, writes=True,
          statuses=_READ),
    Route("POST", "/v1/generations/{name}/publish", "publish", "Make a generation live.", None, m.Live, writes=True,
          statuses=_READ),
    Route("POST", "/v1/rollback", "rollback", "Make the generation live that was before.", None, m.Live, writes=True,
          statuses=_READ),
    Route("GET", "/v1/stats", "stats", "What there is: items, users, attributes, signals, plan.", None, m.Stats,
          statuses=_READ, query=(_GENERATION,)),
    Route("GET", "/v1/scored", "scored", "How many items are looked at, for a sample of users.", None, m.Scored,
          statuses=_READ,
          query=(("sample", "How many users.", {"type": "integer", "minimum": 1, "maximum": 2000, "default": 200}),
                 ("k", "How many answers.", {"type": "integer", "minimum": 1}), _GENERATION)),
    Route("GET", "/v1/traffic", "traffic", "Requests and latency of the last minutes.", None, m.Traffic,
          statuses=(422,),
          query=(("minutes", "How many.", {"type": "integer", "minimum": 1, "maximum": 30, "default": 10}),)),
)  # fmt: skip
