"""Switching the recorder on in a process of an engine."""

from __future__ import annotations

import atexit

from ckptdoctor.recorder.places import places_for
from ckptdoctor.recorder.session import Session
from ckptdoctor.recorder.settings import settings_of
from ckptdoctor.recorder.words import logger, say

__all__ = ["session_on", "switch_on"]

AT_EXIT = 10.0
"""Seconds that the end of a process waits for the last report."""
_SESSIONS: list[Session] = []


def switch_on(engine: str) -> Session | None:
    """Starts to watch, once in a process; returns at once. Whatever it raises, the entry point catches."""
    if _SESSIONS:
        return _SESSIONS[0]
    settings = settings_of()
    for remark in settings.remarks:
        logger().warning(remark)
    places = places_for(engine)
    if places is None:
        logger().warning(say("log", "unknown_engine", engine=engine))
        return None
    session = Session(places, settings)
    _SESSIONS.append(session)
    session.start()
    atexit.register(session.finish, AT_EXIT)
    return session


def session_on() -> Session | None:
    """The session of this process, if there is one."""
    return _SESSIONS[0] if _SESSIONS else None
