"""Encrypts connections with the server's certificate, read again whenever its files change.

It is asked for before each handshake, so a renewed certificate applies to the next connection; open
connections keep theirs until they end.
"""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import grpc

from guided.errors import ServiceError
from guided_service.config import ServerConfig
from guided_service.renewed_files import RenewedFiles

__all__ = ["GrpcCertificate", "HttpCertificate"]

_NAME = "certificate"


class GrpcCertificate:
    """The certificate for the transport of gRPC."""

    def __init__(self, config: ServerConfig) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._config = config
        self._current = RenewedFiles(
            _NAME, config.tls_files, partial(_configuration_of, config.tls_files)
        )

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials that a server listens with."""
        return grpc.dynamic_ssl_server_credentials(
            self._current.value,
            # The stubs omit that it may return None, for no change.
            self.renewed,  # type: ignore[arg-type]
            require_client_authentication=self._config.tls_client_ca is not None,
        )

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificate if it has changed; called by threads of the transport."""
        return self._current.value if self._current.renew() else None


class HttpCertificate:
    """The certificate for servers of HTTP."""

    def __init__(self, config: ServerConfig) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._current = RenewedFiles(
            _NAME, config.tls_files, partial(_context_of, config.tls_files)
        )

    def context(self) -> ssl.SSLContext:
        """Return the context that a server listens with."""
        first = self._current.value
        # Called in each handshake, whether or not the client names a server.
        first.sni_callback = self._choose
        return first

    def _choose(self, shaking: ssl.SSLSocket | ssl.SSLObject, _: str | None, __: object) -> None:
        self._current.renew()
        shaking.context = self._current.value


def _configuration_of(files: tuple[Path, ...]) -> grpc.ServerCertificateConfiguration:
    _context_of(files)  # detects what the transport does not: a key of another certificate
    try:
        chain, key, *roots = (file.read_bytes() for file in files)
    except OSError as error:
        raise _unreadable(files, error) from error
    return grpc.ssl_server_certificate_configuration([(key, chain)], *roots)


def _context_of(files: tuple[Path, ...]) -> ssl.SSLContext:
    chain, key, *roots = files
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(chain, key)
        for root in roots:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(root)
    except OSError as error:  # ssl.SSLError is one
        raise _unreadable(files, error) from error
    return context


def _unreadable(files: tuple[Path, ...], error: OSError) -> ServiceError:
    return ServiceError(
        f"no certificate can be made of {', '.join(map(str, files))}: {error.strerror or error}",
        hint="give a PEM chain, its PEM key without a passphrase, and a PEM file of CAs",
    )
