"""`python -m bench [embedding|keyword|gates|explorer|night ...]`: all of them, or those named."""

from __future__ import annotations

import sys

from bench import embedding, explorer, gates, keyword, night
from recall_core import config

if __name__ == "__main__":
    root = config.find_root()
    parts = {
        "embedding": lambda: embedding.run(root),
        "keyword": keyword.run,
        "gates": gates.run,
        "explorer": lambda: explorer.run(root),
        "night": lambda: night.run(root),
    }
    for name in sys.argv[1:] or parts:
        parts[name]()
