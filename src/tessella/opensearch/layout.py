"""Layout: how items are mapped and which fields they have, and where in a cluster they are.

An `OpenSearchIndex` is an alias of one OpenSearch index, whose layout never changes. The fitted schema is stored in the
index's mapping, so that every client maps items in the same way. `reindex` points the alias to another index.
"""

import base64
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._cached import cached
from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import BlockMapper, SparseMap
from tessella.opensearch import fields
from tessella.opensearch.fields import OWN
from tessella.recommend.attributes import Attributes

FACTOR, VECTOR, SLOTS = "factor", "vector", "slots"  # tessella's own fields
LARGEST_META = 4 * 2**20  # bytes in the cluster state, which every node holds
LARGEST_NORM = 1e19  # so that products stay within float32, in any order of summation
_FORMAT = 1
_USUAL_WINDOW = 10_000


@dataclass(frozen=True)
class Layout:
    """How items are mapped, and which fields their documents have."""

    sparse_map: SparseMap
    columns: Attributes  # a template: the attributes of one made-up item
    text_ids: bool
    on_shards: bool  # whether documents hold vectors that the k-NN plugin can score

    @property
    def n_factors(self) -> int:
        """How many coordinates a factor has."""
        return self.sparse_map.n_features_in_

    @property
    def schema(self) -> Schema:
        """How factors become sparse vectors."""
        return self.sparse_map.schema_

    @cached
    def item_mapper(self) -> BlockMapper:
        """Maps items by the schema."""
        return self.sparse_map._mapper(self.schema, self.n_factors)

    @cached
    def query_mapper(self) -> BlockMapper:
        """Maps queries by the schema without its threshold, as slots search does."""
        return self.sparse_map._mapper(self.schema, self.n_factors, thresholded=False)

    def fits(self, other: Self) -> bool:
        """Return whether items of another layout can be mapped again and stored in this one."""
        mine, theirs = ((one.n_factors, one.text_ids, fields.described(one.columns)) for one in (self, other))
        return mine == theirs

    def mapping(self) -> dict[str, Any]:
        """Return the mapping of the index, which includes the layout itself."""
        columns, own = fields.properties(self.columns)
        own[FACTOR] = {"type": "binary"}
        own[SLOTS] = {"type": "rank_features"}
        if self.on_shards:
            own[VECTOR] = {"type": "knn_vector", "dimension": self.n_factors}
        # Slots and vectors can be computed from the factors again, so documents do not keep their source.
        return {
            "dynamic": "strict",
            "_meta": {OWN: self.meta()},
            "_source": {"excludes": [f"{OWN}.{SLOTS}", f"{OWN}.{VECTOR}"]},
            "properties": {OWN: {"properties": own}, **columns},
        }

    def meta(self) -> dict[str, Any]:
        """Return the layout as JSON values."""
        rotation = self.sparse_map.rotation_ if isinstance(self.schema.rotation, str) else None
        facts = {
            "format": _FORMAT,
            "schema": self.schema.to_json(),
            "n_factors": self.n_factors,
            "scale": self.sparse_map.scale_.hex(),
            "rotation": None if rotation is None else base64.b64encode(rotation.astype("<f8").tobytes()).decode(),
            "columns": fields.described(self.columns),
            "text_ids": self.text_ids,
            "on_shards": self.on_shards,
        }
        size = len(json.dumps(facts))
        if size > LARGEST_META:
            raise ValueError(
                f"the fitted schema takes {size:,} bytes, but the limit in the cluster state is {LARGEST_META:,}; use "
                "fewer coordinates, or a schema without principal axes."
            )
        return facts

    @classmethod
    def from_meta(cls, facts: dict[str, Any]) -> Self:
        """Read the layout that `meta` wrote."""
        if facts.get("format") != _FORMAT:
            raise ValueError(f"its format is {facts.get('format')!r}, but this version of tessella reads {_FORMAT}")
        n_factors, schema = _checks.n_factors(facts["n_factors"]), Schema.from_json(facts["schema"])
        rotation: NDArray[np.float64] | None = None
        if isinstance(schema.rotation, str):
            rotation = np.frombuffer(base64.b64decode(facts["rotation"]), "<f8").reshape(n_factors, n_factors)
        elif schema.rotation is not None:
            rotation = schema.rotation
        sparse_map = SparseMap(schema)
        sparse_map._restore(n_factors, float.fromhex(facts["scale"]), rotation)
        columns = fields.of_description(facts["columns"])
        return cls(sparse_map, columns, bool(facts["text_ids"]), bool(facts["on_shards"]))


@dataclass(frozen=True)
class Place:
    """Where the items currently are."""

    index: str  # the name of the OpenSearch index
    write_alias: str
    n_shards: int
    n_replicas: int
    window: int  # how many hits a request may ask for per shard
    layout: Layout
    blocks: tuple[str, ...] = ()  # settings that keep requests off

    @classmethod
    def of(cls, name: str, found: dict[str, Any]) -> Self:
        """Read the description of the alias `name` that OpenSearch returned."""
        if len(found) > 1:
            raise ValueError(f"{name!r} is an alias of {len(found)} indexes, but must lead to one.")
        try:
            ((index, facts),) = found.items()
            (write_alias,) = (alias for alias in facts["aliases"] if alias.startswith(f"{index}-"))
            settings = facts["settings"]["index"]
            layout = Layout.from_meta(facts["mappings"]["_meta"][OWN])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the index {name!r} was not made by tessella, or is damaged ({error}).") from None
        return cls(
            index,
            write_alias,
            int(settings["number_of_shards"]),
            int(settings["number_of_replicas"]),
            int(settings.get("max_result_window", _USUAL_WINDOW)),
            layout,
            tuple(f"index.blocks.{kind}" for kind, is_on in settings.get("blocks", {}).items() if is_on == "true"),
        )

    @property
    def journal(self) -> str | None:
        """The alias of the journal that writers keep during a `reindex`; None at other times."""
        return journal_of(self.index) if "-journaled-" in self.write_alias else None

    def next_write_alias(self, *, journaled: bool) -> str:
        """Return the next write alias; writers that still use the previous one are refused and so notice a change."""
        return write_alias(self.index, int(self.write_alias.rpartition("-")[2]) + 1, journaled=journaled)


def index_name(name: str) -> str:
    """Return a new name for the OpenSearch index behind the alias `name`, from the time.

    Names are never reused, so a client that remembers an index cannot confuse it with another.
    """
    return f"{name}-{time.time_ns() // 1_000_000}"


def index_pattern(name: str) -> "re.Pattern[str]":
    """Return a pattern for the names of such indexes and of their journals."""
    return re.compile(re.escape(name) + r"-\d{13,}(-journal-\d+)?")


def write_alias(index: str, number: int, *, journaled: bool) -> str:
    """Return the alias for writing to an index; writes require the alias, so none can create an index by accident."""
    return f"{index}-{'journaled' if journaled else 'write'}-{number}"


def journal_of(index: str) -> str:
    """Return the alias of an index's journal."""
    return f"{index}-journal"
