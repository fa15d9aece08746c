"""Together: plain questions that arrive at the same moment are answered by one search.

While an event loop handles what has arrived, questions gather; then one call answers all of them. A search for many
takes a fraction of the time of as many searches, and a lone question waits for nobody. Answers are the same.
"""

import asyncio
import math
from typing import Any

from tessella.recommend.tables import Recommendations
from tessella.serve.calls import Answer, id_out, ids_out
from tessella.serve.messages import ENCODER, Id
from tessella.store import Model

MOST = 128  # questions in one search
FEW = 4  # questions that are answered sooner one by one

Waiting = list[tuple[Id, "asyncio.Future[Answer]"]]


class Together:
    """Gathers questions for users of a model, without anything but k, and answers them."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], tuple[Model, Waiting]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, model: Model, user: Id, k: int) -> "asyncio.Future[Answer]":
        """The answer for one user, once the event loop has looked at what else has arrived."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()
        held = self._waiting.get((model.number, k))
        if held is None:
            held = self._waiting[model.number, k] = model, []
            loop.call_soon(loop.call_soon, loop.call_soon, self._answer, model.number, k)
        held[1].append((user, done))
        if len(held[1]) >= MOST:
            self._answer(model.number, k)
        return done

    def _answer(self, number: int, k: int) -> None:
        """Answer everybody who waits for a model and a k."""
        held = self._waiting.pop((number, k), None)
        if held is None:
            return
        model, waiting = held
        recommend = model.recommender.recommend
        if len(waiting) > FEW:
            users = [user for user, _ in waiting]
            try:
                answers = _answers(model, users, recommend(users, k, threads=1))
            except Exception:  # noqa: BLE001 - one by one, only the request at fault gets the error
                pass
            else:
                for (_, done), answer in zip(waiting, answers, strict=True):
                    if not done.done():
                        done.set_result(answer)
                return
        for user, done in waiting:
            if done.done():
                continue
            try:
                (answer,) = _answers(model, [user], recommend(user, k, threads=1))
            except Exception as error:  # noqa: BLE001
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
