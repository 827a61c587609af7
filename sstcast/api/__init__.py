"""The public functions, which `sstcast` exports and the commands call. They defer imports until a call.

They raise `SSTCastError`, with a one-line message, for every error that a user can fix. They log each step (see
`sstcast.log`), and the longest print it: `fetch`, `hindcast`, `table`, `table5` and `benchmark`.
"""
