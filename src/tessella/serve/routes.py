"""Routes: every path and method of the API, with its request and response types."""

from typing import Any, NamedTuple

from tessella.serve import messages as m

ID = {"id": ("An id.", {"type": "string"})}
NAME = {"name": ("The name of a generation.", {"type": "string"})}
_GENERATION = ("generation", "The generation to use; by default, the live one.", {"type": "string"})
_PAGE = (
    ("limit", "The page size, 1 to 1,000.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}),
    ("after", "The `next` of the previous page.", {"type": "integer", "minimum": -1}),
)


class Route(NamedTuple):
    """One path and method."""

    method: str
    path: str
    name: str  # of the handler
    summary: str
    body: type[Any] | None = None
    answer: type[Any] | None = None
    writes: bool = False
    query: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    statuses: tuple[int, ...] = ()
    arrow: bool = False

    @property
    def params(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The path parameters, with their descriptions and schemas."""
        return (ID if "{id}" in self.path else {}) | (NAME if "{name}" in self.path else {})


_READ = (404, 409, 422)
_WRITE = (400, 404, 409, 413, 415, 422)
ROUTES = (
    Route("POST", "/v1/recommend", "recommend", "Recommend items for users, vectors or likes.", m.Recommend, m.Lists,
          statuses=_WRITE, arrow=True),
    Route("POST", "/v1/similar", "similar", "Find the items most similar to given items.", m.SimilarTo, m.Lists,
          statuses=_WRITE),
    Route("POST", "/v1/explain", "explain", "Explain why an item is or is not recommended.", m.Explain, m.Explained,
          statuses=_WRITE),
    Route("GET", "/v1/items", "items", "List items, or find them by title.", None, m.Items, statuses=(*_READ, 413),
          query=(*_PAGE, ("query", "Part of the title, or an id.", {"type": "string"}),
                 ("ids", "Ids, separated by commas.", {"type": "string"}), _GENERATION)),
    Route("PUT", "/v1/items", "put_items", "Add or change items, all or none.", m.PutItems, m.Changed, writes=True,
          statuses=_WRITE, arrow=True),
    Route("DELETE", "/v1/items", "delete_items", "Remove items, all or none.", m.Ids, m.Changed, writes=True,
          statuses=_WRITE),
    Route("GET", "/v1/items/{id}", "item", "Get one item.", None, m.Item, statuses=_READ, query=(_GENERATION,)),
    Route("PUT", "/v1/items/{id}", "put_item", "Add or change an item.", m.ItemBody, m.Changed, writes=True,
          statuses=_WRITE),
    Route("DELETE", "/v1/items/{id}", "delete_item", "Remove an item.", None, m.Changed, writes=True, statuses=_READ,
          query=(_GENERATION,)),
    Route("GET", "/v1/users", "users", "List users.", None, m.Users, statuses=_READ,
          query=(*_PAGE, ("query", "The beginning of the id.", {"type": "string"}), _GENERATION)),
    Route("PUT", "/v1/users", "put_users", "Add or change users, all or none.", m.PutUsers, m.Changed, writes=True,
          statuses=_WRITE, arrow=True),
    Route("DELETE", "/v1/users", "delete_users", "Remove users, all or none.", m.Ids, m.Changed, writes=True,
          statuses=_WRITE),
    Route("GET", "/v1/users/{id}", "user", "Get one user.", None, m.User, statuses=_READ, query=(_GENERATION,)),
    Route("PUT", "/v1/users/{id}", "put_user", "Add or change a user.", m.UserBody, m.Changed, writes=True,
          statuses=_WRITE),
    Route("DELETE", "/v1/users/{id}", "delete_user", "Remove a user.", None, m.Changed, writes=True, statuses=_READ,
          query=(_GENERATION,)),
    Route("GET", "/v1/generations", "generations", "List generations.", None, m.Generations),
    Route("PUT", "/v1/generations/{name}", "make_generation", "Create an empty generation.", m.NewGeneration, m.Live,
          writes=True, statuses=_WRITE),
    Route("DELETE", "/v1/generations/{name}", "drop", "Drop a generation that is not live.", None, m.Live, writes=True,
          statuses=_READ),
    Route("POST", "/v1/generations/{name}/publish", "publish", "Make a generation live.", None, m.Live, writes=True,
          statuses=_READ),
    Route("POST", "/v1/rollback", "rollback", "Make the previous generation live again.", None, m.Live, writes=True,
          statuses=_READ),
    Route("GET", "/v1/stats", "stats", "Get statistics: items, users, attributes, signals, plan.", None, m.Stats,
          statuses=_READ, query=(_GENERATION,)),
    Route("GET", "/v1/scored", "scored", "Count the items scored, for a sample of users.", None, m.Scored,
          statuses=_READ,
          query=(("sample", "The number of users.", {"type": "integer", "minimum": 1, "maximum": 2000, "default": 200}),
                 ("k", "The number of items per list.", {"type": "integer", "minimum": 1}), _GENERATION)),
    Route("GET", "/v1/traffic", "traffic", "Get the requests and latencies of the last minutes.", None, m.Traffic,
          statuses=(422,),
          query=(("minutes", "How many minutes.", {"type": "integer", "minimum": 1, "maximum": 30, "default": 10}),)),
)  # fmt: skip
