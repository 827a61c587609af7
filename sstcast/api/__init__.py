"""The public functions, which `sstcast` exports; each imports what it needs when it is called."""
