# The tier on a real kernel: a stock distribution kernel in QEMU, and Cantle's real code on the /sys in it. See docs/kernel-lab.md.
.PHONY: test-kernel test-nested test-systemd bench-mdev

test-kernel: ready-dev ## a stock kernel in QEMU, emulated cards, real mediated devices (as root; makes .lab on first use)
	@failed=0; $(PY) -m pytest tests/kernel -q --ignore=tests/kernel/guest/nested --ignore=tests/kernel/systemd $(if $(TESTS),-k '$(TESTS)') || failed=1; \
	$(if $(TESTS),,for step in test-nested test-systemd; do $(MAKE) $$step || failed=1; done;) exit $$failed

test-nested: ready-dev ## guests of a real libvirt inside that guest, which get their units by lease; a part of test-kernel
	@$(PY) -m pytest tests/kernel/guest/nested -q $(if $(TESTS),-k '$(TESTS)')

test-systemd: ready-dev ## a Debian with systemd, on which Cantle is installed by docs/deploy: units, sandboxes, boot; a part of test-kernel
	@$(PY) -m pytest tests/kernel/systemd -q $(if $(TESTS),-k '$(TESTS)')

bench-mdev: ready-dev ## what a mediated device costs on a real kernel, against a shell's echo (as root; half a minute)
	@$(PY) -m bench.mdev
