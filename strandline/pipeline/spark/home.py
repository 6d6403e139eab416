"""A home folder for Spark whose Python workers import pyspark as it is installed.

In its own home Spark has a second pyspark, as a zip that precedes the installed one. Python caches no
bytecode of a zip: each worker compiles it again, for a second, and Spark gives the process that plans a
stream only ten seconds to start. So this home is the package's folder without that zip.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyspark

_ITS_PYTHON = "python"
"""The folder with the zips."""


def spark_home() -> Path:
    """A folder of links in the user's cache, created if it is missing; the package's own folder if that
    fails."""
    package = Path(pyspark.__file__).resolve().parent
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strandline"
    which = hashlib.sha256(f"{package} {pyspark.__version__}".encode()).hexdigest()[:16]
    home = cache / f"spark-home-{which}"
    if (home / "jars").is_dir():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="spark-home-", dir=cache))
        for entry in package.iterdir():
            if entry.name != _ITS_PYTHON:
                (made / entry.name).symlink_to(entry)
        try:
            made.rename(home)
        except OSError:  # another process was first
            shutil.rmtree(made)
    except OSError:
        return package
    return home if (home / "jars").is_dir() else package
