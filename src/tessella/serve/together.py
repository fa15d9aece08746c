"""Together: plain requests that arrive at the same moment are answered by one batched search.

Requests collect while the event loop works through what has arrived; then one call answers all of them. One batched
search takes a fraction of the time of separate searches, and a lone request does not wait. The answers do not change.
"""

import asyncio
import math
from typing import Any

from tessella.recommend.tables import Recommendations
from tessella.serve.calls import Answer, id_out, ids_out
from tessella.serve.messages import ENCODER, Id
from tessella.store import Model

MOST = 128  # requests in one search
FEW = 4  # up to so many are answered sooner one by one

Waiting = list[tuple[Id, "asyncio.Future[Answer]"]]


class Together:
    """Collects requests that name only a user and k, and answers them in batches."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], tuple[Model, Waiting]] = {}

    def ask(self, model: Model, user: Id, k: int) -> "asyncio.Future[Answer]":
        """Return a future of the answer for one user; it is set after the event loop's current round."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()
        held = self._waiting.get((model.number, k))
        if held is None:
            held = self._waiting[model.number, k] = model, []
            # Three turns of the loop, a few microseconds each: clients that were just answered ask again meanwhile.
            loop.call_soon(loop.call_soon, loop.call_soon, self._answer, model.number, k)
        held[1].append((user, done))
        if len(held[1]) >= MOST:
            self._answer(model.number, k)
        return done

    def _answer(self, number: int, k: int) -> None:
        """Answer every request that is waiting for this model and k."""
        held = self._waiting.pop((number, k), None)
        if held is None:
            return
        model, waiting = held
        if len(waiting) <= FEW:
            _one_by_one(model, waiting, k)
            return
        users = [user for user, _ in waiting]
        try:
            answers = _answers(model, users, model.recommender.recommend(users, k, threads=1))
        except Exception:  # noqa: BLE001 - one by one, only the request at fault fails
            _one_by_one(model, waiting, k)
            return
        for (_, done), answer in zip(waiting, answers, strict=True):
            if not done.done():
                done.set_result(answer)


def _one_by_one(model: Model, waiting: Waiting, k: int) -> None:
    """Answer requests separately."""
    for user, done in waiting:
        if done.done():
            continue
        try:
            (answer,) = _answers(model, [user], model.recommender.recommend(user, k, threads=1))
        except Exception as error:  # noqa: BLE001 - passed on to the request that caused it
            done.set_exception(error)
        else:
            done.set_result(answer)


def _answers(model: Model, users: list[Id], found: Recommendations) -> list[Answer]:
    """Return an answer for each user, from the lists of all of them, or from one list that is not in a batch."""
    columns: list[list[Any]] = [part.tolist() for part in (found.ids, found.scores, found.n_scored, found.certified)]
    if found.ids.ndim == 1:
        columns = [[part] for part in columns]
    version = found.version
    headers = ((b"tessella-generation", model.name.encode()), (b"tessella-version", b"%d" % version))
    head: dict[str, Any] = {
        "generation": model.name,
        "version": version,
        "n_items": model.recommender._edition.version.n_live,
        "lists": [],
        "next": None,
    }
    made: list[Answer] = []
    for user, ids, scores, scored, certified in zip(users, *columns, strict=True):
        if scores[-1] == -math.inf:
            left = sum(score > -math.inf for score in scores)
            ids, scores = ids[:left], scores[:left]  # noqa: PLW2901
        own = {"ids": ids_out(ids), "scores": scores, "scored": scored, "certified": certified, "user": id_out(user)}
        head["lists"] = [own]
        made.append(Answer(ENCODER.encode(head), headers=headers))
    return made
