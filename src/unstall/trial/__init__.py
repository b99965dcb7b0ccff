"""``unstall try``: remedies tried on the program itself, unprofiled and unedited, one against the plain run at a time.

In: a command line and candidates. Out: :class:`~unstall.trial.outcome.Outcome`, a row a candidate. ``runs`` starts the
program once, ``losses`` says whether two runs train alike, ``gain`` how sure a ratio is, ``standing`` whether more runs
would tell more, ``candidate`` keeps one row, ``engine`` decides what runs next.
"""

from unstall.trial.engine import attempt
from unstall.trial.outcome import Outcome, Plan, Row

__all__ = ["Outcome", "Plan", "Row", "attempt"]
