"""The certificates and the key of a process as they are now: their files may be replaced while it runs."""

from __future__ import annotations

import threading

import structlog

from strandline.adapters.tls.pem import Pem, read_pem, stamps
from strandline.config.security import SecuritySettings
from strandline.errors import SettingsError
from strandline.ports import Clock

logger = structlog.get_logger(__name__)


class ReloadedPem:
    """The files of the settings, read again once they have changed. Any thread may use it.

    Files that cannot be used, such as a certificate whose key is not there yet, change nothing: connections
    go on with the previous ones.
    """

    def __init__(
        self, settings: SecuritySettings, clock: Clock, *, demands_certificates: bool | None = None
    ) -> None:
        """Arguments as of `read_pem`. Raises SettingsError for files that cannot be used."""
        self.failures = 0
        """How often files were put in place that could not be used."""
        self.demands_certificates = demands_certificates or False
        """True if a client has to show a certificate."""
        self._settings = settings
        self._clock = clock
        self._demands_certificates = demands_certificates
        self._looking = threading.Lock()
        self._stamps = stamps(settings)
        self._looked_at = clock.monotonic()
        self._pem = read_pem(settings, demands_certificates=demands_certificates)

    def now(self) -> Pem:
        """The newest that can be used: another object once they have changed. Never raises."""
        if self._looking.acquire(blocking=False):  # one thread looks; the others take what there is
            try:
                self._look()
            finally:
                self._looking.release()
        return self._pem

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < self._settings.ssl_reload_ms / 1000:
            return
        self._looked_at = now
        found = stamps(self._settings)
        if found == self._stamps:
            return
        self._stamps = found
        try:
            self._pem = read_pem(self._settings, demands_certificates=self._demands_certificates)
        except SettingsError as error:
            self.failures += 1
            logger.error("new certificates cannot be used, the old ones stay", reason=error.message)
        else:
            logger.info("certificates were replaced", certificate=str(self._settings.ssl_certfile))

    def complaint(self) -> str | None:
        """Why the files cannot be used now, such as an expired certificate; None: they can."""
        try:
            read_pem(self._settings, demands_certificates=self._demands_certificates)
        except SettingsError as error:
            return error.message
        return None

    def warn_unless_named(self, setting: str, host: str) -> None:
        """Log that peers will refuse this process under a host name that its certificate does not have."""
        identity = self.now().identity
        if identity is not None and not identity.certificate.names(host):
            logger.warning(
                "the certificate does not name the host under which others reach this process: they will "
                "refuse it",
                setting=setting,
                host=host,
                certificate=str(self._settings.ssl_certfile),
                names=sorted(identity.certificate.hosts),
            )

    def expires_in_s(self) -> float | None:
        """Seconds until the certificate expires, negative once it has; None: there is none."""
        identity = self.now().identity
        if identity is None:
            return None
        return (identity.certificate.expires_at_ms - self._clock.wall_ms()) / 1000
