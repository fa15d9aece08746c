"""DataFrames of factors, and what one machine answers."""

import numpy as np

import tessella as ts

COLUMNS = "id long, features array<float>"


def vectors(spark, ids, factors, columns=COLUMNS, partitions=4):
    rows = [(as_plain(own), factor.tolist()) for own, factor in zip(ids, factors, strict=True)]
    return spark.createDataFrame(rows, columns).repartition(partitions)


def as_plain(value):
    return value.item() if isinstance(value, np.generic) else value


def pairs(spark, lists, columns="user long, item long"):
    """Pairs of users and items, from the items of each user."""
    return spark.createDataFrame([(user, as_plain(item)) for user, items in lists.items() for item in items], columns)


def found(frame, user="id", item="id"):
    """Answers of Spark: pairs of item and rating, by user."""
    rows = frame.collect()
    answers = {row[user]: [(one[item], one["rating"]) for one in row["recommendations"]] for row in rows}
    assert len(answers) == len(rows)
    return answers


def expected(user_ids, users, item_ids, items, k, exclude=None):
    """Answers of one machine, exactly: pairs of item and rating, by user. Among equal ratings, the smaller id."""
    order = np.argsort(item_ids, kind="stable")
    index = ts.Index.build(items[order], np.asarray(item_ids)[order], method="exact")
    lists = None if exclude is None else [list(exclude.get(as_plain(user), [])) for user in user_ids]
    answers = index.search(users, k, exclude=lists)
    return {
        as_plain(user): [(as_plain(one), rating) for one, rating in zip(ids, scores, strict=True) if rating > -np.inf]
        for user, ids, scores in zip(user_ids, answers.ids, answers.scores.tolist(), strict=True)
    }
