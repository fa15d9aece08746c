"""Store: models in one SQLite file, with one writing process and any number of readers. Rows are the truth."""

from tessella.store.catalogue import Generation, Store
from tessella.store.inputs import Change, ItemInput, UserInput
from tessella.store.models import EmptyError, Model
from tessella.store.rows import DamagedRowError

__all__ = ["Change", "DamagedRowError", "EmptyError", "Generation", "ItemInput", "Model", "Store", "UserInput"]
