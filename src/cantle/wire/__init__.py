"""What agent and server say to each other: structs and the protocol's version."""
