"""The Linux kernel's files under an injectable root. The only room that knows paths below /sys, /proc and /dev."""
