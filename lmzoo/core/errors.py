"""The one exception a user may see."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake the user can mend: one line saying what is wrong, where, and what to do.

    Commands print it after ``error:`` and exit with code 2, without a traceback.

    Attributes:
        problem: what is wrong, and where.
        advice: what to do, where the problem does not say it; whoever raises the problem again may have better advice.
    """

    def __init__(self, problem: str, advice: str | None = None):
        super().__init__(problem if advice is None else f"{problem}; {advice}")
        self.problem = problem
        self.advice = advice


def shortened(value: object, length: int = 80) -> str:
    """A value in a message: its beginning, where it is long."""
    if isinstance(value, int) and abs(value) >= 10**length:
        return "a number of very many digits"  # Python refuses to write it out
    text = str(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def nearest(word: str, names: Iterable[str]) -> str:
    """Advice about a misspelt name: ``did you mean 'x'?``, or the list of names."""
    names = sorted(names)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(names) or 'none'}"


class Interrupted(Exception):  # noqa: N818 - not an error
    """SIGINT or SIGTERM came while a model was learning by gradient; everything is saved."""
