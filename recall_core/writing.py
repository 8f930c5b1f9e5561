"""Writing a file so that a reader finds the old text or the new one, never a part."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path


def write_whole(path: Path, text: str | bytes) -> None:
    """Write text, as UTF-8, or bytes to the file, whole or not at all, and keep the mode it had.

    What a kill leaves beside it is called `.NAME.*.part`.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
