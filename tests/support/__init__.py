"""What tests share: servers, processes, links that can be cut, and waiting for a condition."""
