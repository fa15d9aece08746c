"""The adapter for PyTorch: embeddings, tensors and towers."""

import numpy as np
import pytest

from tessella.integrations.torch import from_torch

torch = pytest.importorskip("torch", reason="torch is not installed; make test-integrations has it")

N_USERS, N_ITEMS, WIDTH = 12, 30, 5
USERS = np.arange(N_USERS)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def assert_best(recommender, scores, k=4):
    scores = scores.detach().float().numpy()
    found = recommender.recommend(USERS, k=k)
    np.testing.assert_array_equal(found.ids, np.argsort(-scores, axis=1)[:, :k])
    np.testing.assert_allclose(found.scores, -np.sort(-scores, axis=1)[:, :k], rtol=1e-4, atol=1e-5)


def test_embeddings_parameters_and_tensors():
    items, users = torch.nn.Embedding(N_ITEMS, WIDTH), torch.nn.Embedding(N_USERS, WIDTH)
    scores = users.weight @ items.weight.T
    for pair in [(items, users), (items.weight, users.weight), (items.weight.detach(), users.weight.detach().numpy())]:
        assert_best(from_torch(*pair), scores)


def test_numbers_that_numpy_does_not_have():
    items, users = (torch.randn(n, WIDTH).bfloat16() for n in (N_ITEMS, N_USERS))
    assert_best(from_torch(items, users), users.float() @ items.float().T)


def test_biases_are_a_coordinate():
    items, users, biases = torch.randn(N_ITEMS, WIDTH), torch.randn(N_USERS, WIDTH), torch.nn.Embedding(N_ITEMS, 1)
    scores = users @ items.T + biases.weight[:, 0]
    assert_best(from_torch(items, users, item_biases=biases), scores)
    assert_best(from_torch(items, users, item_biases=biases.weight[:, 0]), scores)


def test_the_row_of_padding_is_no_item():
    items = torch.nn.Embedding(N_ITEMS, WIDTH, padding_idx=0)
    users = -items.weight[1:4].detach()  # nothing is as good as nothing
    recommender = from_torch(items, users)
    found = recommender.recommend([0, 1, 2], k=N_ITEMS)
    assert sorted(found.ids[0]) == [-1, *range(1, N_ITEMS)]


class Tower(torch.nn.Module):
    """Ids and a feature go in; batch norm and dropout show whether it answers or learns."""

    def __init__(self, n):
        super().__init__()
        self.embedding = torch.nn.Embedding(n, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(9, WIDTH)
        self.calls = []

    def forward(self, ids, extra):
        self.calls.append(len(ids))
        return torch.nn.functional.normalize(self.last(torch.cat([self.drop(self.embedding(ids)), extra], 1)), dim=1)


def towers():
    made = []
    for n in (N_ITEMS, N_USERS):
        tower = Tower(n)
        made.append((tower, (torch.arange(n), torch.randn(n, 1))))
    return made


def test_towers_are_called_in_batches_to_answer_and_left_as_they_were():
    (items, item_inputs), (users, user_inputs) = towers()
    users.drop.eval()  # a part may have a mode of its own
    recommender = from_torch(items, users, item_inputs=item_inputs, user_inputs=user_inputs, batch_size=7)
    assert items.calls == [7, 7, 7, 7, 2]
    assert items.training
    assert items.drop.training
    assert users.training
    assert not users.drop.training
    scores = users.eval()(*user_inputs) @ items.eval()(*item_inputs).T
    assert_best(recommender, scores)


def test_loaders_give_batches_themselves():
    (items, item_inputs), (users, user_inputs) = towers()
    loaders = [
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*inputs), batch_size=5)
        for inputs in (item_inputs, user_inputs)
    ]
    recommender = from_torch(items, users, item_inputs=loaders[0], user_inputs=loaders[1])
    assert_best(recommender, users.eval()(*user_inputs) @ items.eval()(*item_inputs).T)


def test_items_alone_are_asked_for_with_vectors():
    items = torch.randn(N_ITEMS, WIDTH)
    found = from_torch(items).recommend(items[3].numpy() * 100, k=1, exact=True)
    assert found.ids[0] == int(torch.argmax(items @ items[3]))


def test_what_does_not_fit_gets_a_sentence():
    (items, item_inputs), _ = towers()
    with pytest.raises(TypeError, match=r"items \(Tower\) has no weights; pass item_inputs to call it as a tower\."):
        from_torch(items)
    with pytest.raises(TypeError, match=r"with item_inputs, items must be a callable tower, not Tensor\."):
        from_torch(torch.eye(3), item_inputs=torch.arange(3))
    with pytest.raises(ValueError, match=r"inputs of a tower have 2 and 30 rows, but must all have the same number\."):
        from_torch(items, item_inputs=(item_inputs[0], item_inputs[1][:2]))
    with pytest.raises(ValueError, match=r"items has 0 batches of inputs, but needs at least 1\."):
        from_torch(items, item_inputs=[])
    with pytest.raises(
        ValueError, match=r"item_biases has shape \(2,\), but must have shape \(3,\), one for each item\."
    ):
        from_torch(torch.eye(3), item_biases=torch.zeros(2))
    assert items.training
