"""The one exception users meet."""


class SSTCastError(Exception):
    """Something the user can mend: its text is one line naming the file or key, and the remedy.

    The command line prints it on stderr and exits with code 2.
    """
