"""The one exception a user may see."""


class UserError(ValueError):
    """A mistake the user can mend: one line saying what is wrong, where, and what to do.

    Commands print it after ``error:`` and exit with code 2, without a traceback.
    """
