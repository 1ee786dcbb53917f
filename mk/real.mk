# The tier on real services: Keystone, tempest, Nova's client, openstacksdk, the openstack commands. See docs/testing-real.md.
.PHONY: test-real

test-real: ## Cantle with a real Keystone and the clients that operators and Nova use
	@$(BOOTSTRAP) dev openstack gunicorn mysql
	@nice -n 10 $(PY) -m tests.real.prepare
	@$(PY) -m pytest tests/real -q
