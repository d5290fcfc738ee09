"""Encrypts connections with the server's certificate, read again whenever its files change.

It is asked for before each handshake, so a renewed certificate applies to the next connection; open
connections keep theirs until they end.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc

from guided.errors import ServiceError
from guided_service.config import ServerConfig
from guided_service.renewed_files import RenewedFiles

__all__ = ["CertificateFiles", "GrpcCertificate", "HttpCertificate", "files_of"]

_NAME = "certificate"


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The paths of the server's certificate; all files are PEM."""

    chain: Path
    """The certificate and those between it and one that callers trust."""
    key: Path
    client_ca: Path | None = None
    """The CAs of callers' certificates; if given, callers must show one."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that there are."""
        return tuple(filter(None, (self.chain, self.key, self.client_ca)))


def files_of(config: ServerConfig) -> CertificateFiles | None:
    """Return the files that the settings name, or ``None`` if traffic is not encrypted."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return CertificateFiles(config.tls_cert, config.tls_key, config.tls_client_ca)


class GrpcCertificate:
    """The certificate for the transport of gRPC."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._files = files
        self._current = RenewedFiles(_NAME, files.paths, partial(_configuration_of, files))

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials that a server listens with."""
        return grpc.dynamic_ssl_server_credentials(
            self._current.value,
            # The stubs omit that it may return None, for no change.
            self.renewed,  # type: ignore[arg-type]
            require_client_authentication=self._files.client_ca is not None,
        )

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificate if it has changed; called by threads of the transport."""
        return self._current.value if self._current.renew() else None


class HttpCertificate:
    """The certificate for servers of HTTP."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files; raises ``ServiceError`` if they do not fit together."""
        self._current = RenewedFiles(_NAME, files.paths, partial(_context_of, files))

    def context(self) -> ssl.SSLContext:
        """Return the context that a server listens with."""
        first = self._current.value
        # Called in each handshake, whether or not the client names a server.
        first.sni_callback = self._choose
        return first

    def _choose(self, shaking: ssl.SSLSocket | ssl.SSLObject, _: str | None, __: object) -> None:
        self._current.renew()
        shaking.context = self._current.value


def _configuration_of(files: CertificateFiles) -> grpc.ServerCertificateConfiguration:
    _context_of(files)  # detects what the transport does not: a key of another certificate
    try:
        chain, key = files.chain.read_bytes(), files.key.read_bytes()
        roots = None if files.client_ca is None else files.client_ca.read_bytes()
    except OSError as error:
        raise _unreadable(files, error) from error
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots)


def _context_of(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.chain, files.key)
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(files.client_ca)
    except OSError as error:  # ssl.SSLError is one
        raise _unreadable(files, error) from error
    return context


def _unreadable(files: CertificateFiles, error: OSError) -> ServiceError:
    return ServiceError(
        f"no certificate can be made of {', '.join(map(str, files.paths))}: "
        f"{error.strerror or error}",
        hint="give a PEM chain, its PEM key without a passphrase, and a PEM file of CAs",
    )
