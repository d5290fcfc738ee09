"""Reads the server's certificate again whenever its files change, without a restart.

The transport asks before each handshake, so a renewed certificate applies to the next connection;
open connections keep theirs until they end.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from guided.errors import ServiceError
from guided_service.config import ServerConfig
from guided_service.token_book import stamp_of

__all__ = ["CertificateFiles", "Certificates", "files_of"]

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The paths of the server's certificate; all files are PEM."""

    chain: Path
    """The certificate and those between it and one that callers trust."""
    key: Path
    client_ca: Path | None = None
    """The CAs of callers' certificates; if given, callers must show one."""


def files_of(config: ServerConfig) -> CertificateFiles | None:
    """Return the files that the settings name, or ``None`` if traffic is not encrypted."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return CertificateFiles(config.tls_cert, config.tls_key, config.tls_client_ca)


class Certificates:
    """The server's certificate as it is on disk."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._files = files
        self._stamps = self._look()
        self._first = _read(files)

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials that a server listens with."""
        return grpc.dynamic_ssl_server_credentials(
            self._first,
            # The stubs omit that it may return None, for no change.
            self.renewed,  # type: ignore[arg-type]
            require_client_authentication=self._files.client_ca is not None,
        )

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificate if it has changed since the last call and fits its key.

        Called by threads of the transport. Files that do not fit together change nothing: most
        often one of them is still being written.
        """
        stamps = self._look()
        if stamps == self._stamps:
            return None
        try:
            renewed = _read(self._files)
        except ServiceError as error:
            _log.error("certificate not read again; the one before holds", error=str(error))
            return None
        self._stamps = stamps
        _log.info("certificate read again", file=str(self._files.chain))
        return renewed

    def _look(self) -> tuple[object, ...]:
        files = self._files
        return tuple(map(stamp_of, filter(None, (files.chain, files.key, files.client_ca))))


def _read(files: CertificateFiles) -> grpc.ServerCertificateConfiguration:
    try:
        # Detects what the transport does not: a key that does not belong to the certificate.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.chain, files.key)
        if files.client_ca is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(files.client_ca)
        chain, key = files.chain.read_bytes(), files.key.read_bytes()
        roots = None if files.client_ca is None else files.client_ca.read_bytes()
    except OSError as error:  # ssl.SSLError is one
        names = ", ".join(map(str, filter(None, (files.chain, files.key, files.client_ca))))
        raise ServiceError(
            f"no certificate can be made of {names}: {error.strerror or error}",
            hint="give a PEM chain, its PEM key without a passphrase, and a PEM file of CAs",
        ) from error
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots)
