"""OpenStack Placement: what it shall have of our devices, how that differs from what it has, and bringing the one to the other.

`cantle.placement.client` needs keystoneauth1, which comes with an extra; everything else here is pure.
"""
