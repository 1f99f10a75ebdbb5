"""Generated protobuf and gRPC stubs of the package jobmesh.v1 (`make protos`)."""
