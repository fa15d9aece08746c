"""Store: models in one SQLite file, whose rows are the truth, for one process that writes and many that read."""

from tessella.store.catalogue import Generation, Store
from tessella.store.inputs import Change, ItemInput, UserInput
from tessella.store.models import EmptyError, Model
from tessella.store.rows import DamagedRowError

__all__ = ["Change", "DamagedRowError", "EmptyError", "Generation", "ItemInput", "Model", "Store", "UserInput"]
