"""The store: memories, their words (FTS5) and their vectors, in one SQLite file or in memory.

Vectors are keyed by (fingerprint, text hash). Two memories with the same text stay two rows and share
one vector, so that their scores are equal to the last bit and a tie is seen as a tie.
"""

from recall_core.store.sqlite import COLUMNS, SqliteStore
from recall_core.store.vectors import Vectors

__all__ = ["COLUMNS", "SqliteStore", "Vectors"]
