"""What the four services share: settings, lifecycle, gRPC and HTTP servers, metrics, logs, traces.

It needs the extra ``jobmesh[server]``; nothing that a client imports may import it.
"""
