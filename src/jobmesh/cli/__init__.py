"""The command line; a command's module, gRPC and rich are loaded only when they are needed."""
