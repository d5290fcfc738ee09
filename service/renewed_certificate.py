"""Encrypts HTTP with the certificate of the gRPC services, read again whenever it changes."""

from __future__ import annotations

import ssl

import structlog

from guided.errors import ServiceError
from guided_service.certificates import CertificateFiles
from guided_service.token_book import stamp_of

__all__ = ["RenewedCertificate"]

_log = structlog.get_logger()


class RenewedCertificate:
    """A certificate as it is on disk, checked before each handshake."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._files = files
        self._stamps = self._look()
        self._current = _context_of(files)

    def context(self) -> ssl.SSLContext:
        """Return the context that a server listens with."""
        first = self._current
        # Called in each handshake, whether or not the client names a server.
        first.sni_callback = self._choose
        return first

    def _choose(self, shaking: ssl.SSLSocket | ssl.SSLObject, _: str | None, __: object) -> None:
        stamps = self._look()
        if stamps != self._stamps:
            try:
                self._current = _context_of(self._files)
            except ServiceError as error:
                # Most often one of the files is still being written.
                _log.error("certificate not read again; the one before holds", error=str(error))
            else:
                self._stamps = stamps
                _log.info("certificate read again", file=str(self._files.chain))
        shaking.context = self._current

    def _look(self) -> tuple[object, ...]:
        files = self._files
        return tuple(map(stamp_of, filter(None, (files.chain, files.key, files.client_ca))))


def _context_of(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.chain, files.key)
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(files.client_ca)
    except OSError as error:  # ssl.SSLError is one
        names = ", ".join(map(str, filter(None, (files.chain, files.key, files.client_ca))))
        raise ServiceError(
            f"no certificate can be made of {names}: {error.strerror or error}",
            hint="give a PEM chain, its PEM key without a passphrase, and a PEM file of CAs",
        ) from error
    return context
