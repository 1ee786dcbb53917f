"""HTTP: one table of routes; v2 is the accelerator API, v1 our own."""
