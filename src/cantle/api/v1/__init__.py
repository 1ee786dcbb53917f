"""Our own API: hosts, devices, capacity, leases."""
