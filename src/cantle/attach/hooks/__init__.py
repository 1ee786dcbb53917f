"""What libvirt and LXC run when their guests start and end: shipped as it is, and installed by ``cantle agent hooks install``."""
