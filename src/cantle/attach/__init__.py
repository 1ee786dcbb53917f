"""How an attach handle enters a guest: libvirt, LXC, CDI."""
