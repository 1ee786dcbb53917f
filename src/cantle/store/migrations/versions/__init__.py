"""One module per step; file names begin with the number of the revision."""
