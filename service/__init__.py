"""The gRPC server of ``guided``."""
