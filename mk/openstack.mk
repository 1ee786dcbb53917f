# The tier of a whole OpenStack: Nova boots servers on Cantle's accelerators. See docs/testing-openstack.md.
.PHONY: test-openstack

test-openstack: ## real Nova, Placement, Keystone and Glance with Cantle in Cyborg's place
	@$(BOOTSTRAP) dev openstack gunicorn mysql
	@nice -n 10 $(PY) -m tests.openstack.prepare
	@$(PY) -m pytest tests/openstack -q $(if $(TESTS),-k '$(TESTS)')
