# The tier on a real kernel: a stock distribution kernel in QEMU, and Cantle's real code on the /sys in it. See docs/kernel-lab.md.
.PHONY: test-kernel bench-mdev

test-kernel: ready-dev ## a stock kernel in QEMU, emulated cards, real mediated devices (as root; makes .lab on first use)
	@$(PY) -m pytest tests/kernel -q $(if $(TESTS),-k '$(TESTS)')

bench-mdev: ready-dev ## what a mediated device costs on a real kernel, against a shell's echo (as root; half a minute)
	@$(PY) -m bench.mdev
