"""Makes the Dockerfile's base image from Debian's Python, for engines that can pull none.

Only for tests. debootstrap makes it from Debian 12, with the certificates of this machine, so that pip in a
build works behind a proxy that this machine trusts. The image stays in the engine. It is made again when its
recipe changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from strandline_lab.chaos.containers.commands import CommandFailed, run
from strandline_lab.chaos.world import WorldFailed

SUITE: Final = "bookworm"
PACKAGES: Final = ("ca-certificates", "python3", "python3-pip", "python3-venv")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
LABEL: Final = "strandline.recipe"
PULL_S_MAX: Final = 300.0
MAKE_S_MAX: Final = 1200.0

Docker = Callable[..., Awaitable[str]]


async def ensure_base_image(docker: Docker, name: str) -> None:
    """Makes sure that the engine has an image of this name: a pulled one, or one made here. Raises
    WorldFailed."""
    had = await _recipe_of(docker, name)
    if had is not None and had in ("", _recipe()):
        return
    try:
        await docker("pull", name, timeout_s=PULL_S_MAX)
    except CommandFailed as error:
        if os.geteuid() != 0 or shutil.which("debootstrap") is None:
            raise WorldFailed(
                f"the image {name} cannot be pulled ({error.message}), and only root with debootstrap can "
                "make one instead: give the engine an image of that name, or run this as root on Debian"
            ) from error
        await _make(docker, name)


async def _recipe_of(docker: Docker, name: str) -> str | None:
    """The recipe that an image of this name was made from; "" if it is not one of ours, None if there is
    none."""
    try:
        return (await docker("inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', name)).strip()
    except CommandFailed:
        return None


def _recipe() -> str:
    """A hash that changes with everything that goes into the image."""
    parts = (SUITE.encode(), *(package.encode() for package in PACKAGES), CERTIFICATES.read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


async def _make(docker: Docker, name: str) -> None:
    home = Path(tempfile.mkdtemp(prefix="strandline-base-"))
    try:
        root, archive = home / "root", home / "root.tar"
        # It runs in a mount namespace of its own, so its mounts disappear with it, also if it fails half way.
        await run(
            "unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
            SUITE, str(root),
            timeout_s=MAKE_S_MAX,
        )  # fmt: skip
        shutil.copyfile(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        (root / "usr/bin/python").symlink_to("python3")
        shutil.rmtree(root / "var/cache/apt/archives")
        await run("tar", "--create", "--file", str(archive), "--directory", str(root), ".")
        variables = " ".join(
            f"{each}={CERTIFICATES}" for each in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        )
        await docker(
            "import", "--change", f"ENV {variables}", "--change", f"LABEL {LABEL}={_recipe()}",
            "--change", 'CMD ["python3"]', str(archive), name,
            timeout_s=MAKE_S_MAX,
        )  # fmt: skip
    finally:
        shutil.rmtree(home, ignore_errors=True)
