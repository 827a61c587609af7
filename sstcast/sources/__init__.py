"""Where days come from: servers, folders, the simulator; and the store they are kept in."""
