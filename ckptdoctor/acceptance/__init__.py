"""What an accepted length means: the number of a server or its log, whether it pays, and what to check next."""

from ckptdoctor.acceptance.asking import Acceptance, Question, acceptance_for
from ckptdoctor.acceptance.judging import Judgement
from ckptdoctor.acceptance.log_reader import LogFigures, read_log

__all__ = ["Acceptance", "Judgement", "LogFigures", "Question", "acceptance_for", "read_log"]
