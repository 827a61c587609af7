"""The public functions, which `sstcast` itself offers; each imports what it needs when it is called."""
