"""Durable background jobs as a mesh of small asyncio gRPC services."""
