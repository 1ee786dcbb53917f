"""Cantle in Cyborg's place in a real OpenStack: Nova boots servers on it. See docs/testing-openstack.md."""
