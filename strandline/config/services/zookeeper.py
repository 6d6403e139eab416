"""How a service writes its log, and how it reaches ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from strandline.config.services.constants import ZooKeeperConstants


class ServiceSettings(BaseModel):
    """How a service writes its log."""

    # A process builds the validators of the one class that it uses.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    log_format: str = Field(default="json", pattern="^(json|console)$")
    """json: one object a line; console: lines for people, with colours on a terminal."""
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")


class ZooKeeperSettings(ZooKeeperConstants, ServiceSettings):
    """How to reach ZooKeeper."""

    zookeeper: str = "127.0.0.1:2181"
    """host:port, several with commas, a chroot at the end if wanted."""
    zookeeper_session_timeout_ms: int = Field(default=3_000, ge=500, le=120_000)
    zookeeper_ssl: bool = False
    """Whether connections to ZooKeeper are encrypted; the server then has to show a certificate."""
    zookeeper_ssl_cafile: Path | None = None
    """A PEM file with the authorities whose certificates ZooKeeper may show; None: those of the system."""
    zookeeper_ssl_certfile: Path | None = None
    """A PEM file with the certificate that this process shows to ZooKeeper, and those between it and its
    authority; None: it shows none."""
    zookeeper_ssl_keyfile: Path | None = Field(default=None, validate_default=True)
    """A PEM file with the key of that certificate, in PKCS#8 and without a password; other users must not be
    able to read it."""
    zookeeper_ssl_check_hostname: bool = True
    """Whether the certificate of a server has to name the host under which `zookeeper` has it."""
    zookeeper_auth_scheme: str = Field(default="none", pattern="^(none|digest|x509)$")
    """How ZooKeeper knows this process: digest, by a name and a password; x509, by `zookeeper_ssl_certfile`;
    none, not at all."""
    zookeeper_auth_file: Path | None = Field(default=None, validate_default=True)
    """For digest: a file with a line `name:password`, which other users must not be able to read. Further
    lines are identities that this process has besides, while a password is replaced."""
    zookeeper_auth_plaintext: bool = False
    """Whether digest may send its password to another machine without `zookeeper_ssl`."""
    zookeeper_x509_ids: str = ""
    """For x509, the identities that get access to the znodes that this process creates, separated by
    semicolons; empty: the one of this process. Every broker and controller needs access."""
    zookeeper_set_acl: bool = Field(default=False, validate_default=True)
    """Whether znodes that this process creates are for the identity of the cluster only. Otherwise everyone
    who reaches ZooKeeper may read, change and delete them."""

    @field_validator("zookeeper")
    @classmethod
    def _without_user(cls, addresses: str) -> str:
        if "@" in addresses:
            raise ValueError("leave name and password out: zookeeper_auth_file has them")
        return addresses

    @field_validator("zookeeper_ssl_cafile", "zookeeper_ssl_certfile")
    @classmethod
    def _encrypted(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and not info.data.get("zookeeper_ssl", True):  # missing if it is invalid itself
            raise ValueError("needs zookeeper_ssl = true: without it the connection is not encrypted")
        return file

    @field_validator("zookeeper_ssl_keyfile")
    @classmethod
    def _zookeeper_pair(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if (info.data.get("zookeeper_ssl_certfile", key) is None) is not (key is None):
            raise ValueError("set both zookeeper_ssl_certfile and zookeeper_ssl_keyfile, or neither")
        return key

    @field_validator("zookeeper_auth_scheme")
    @classmethod
    def _certified(cls, scheme: str, info: ValidationInfo) -> str:
        if scheme == "x509" and info.data.get("zookeeper_ssl_certfile", scheme) is None:
            raise ValueError("x509 needs zookeeper_ssl_certfile, the certificate that ZooKeeper knows it by")
        return scheme

    @field_validator("zookeeper_auth_file")
    @classmethod
    def _for_digest(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        scheme = info.data.get("zookeeper_auth_scheme")
        if scheme is not None and (scheme == "digest") is (file is None):
            raise ValueError("set zookeeper_auth_scheme = digest and zookeeper_auth_file together")
        return file

    @field_validator("zookeeper_set_acl")
    @classmethod
    def _by_an_identity(cls, set_acl: bool, info: ValidationInfo) -> bool:
        if set_acl and info.data.get("zookeeper_auth_scheme") == "none":
            raise ValueError(
                "needs zookeeper_auth_scheme: without it nobody could read what this process creates"
            )
        return set_acl
