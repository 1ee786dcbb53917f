"""One per host: discover and report; desired state to kernel to result."""
