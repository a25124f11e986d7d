"""What can be wrong with a frame."""

from __future__ import annotations


class FrameError(ValueError):
    """Bytes that are no frame of RocketMQ, or a command that no frame can carry; says what is wrong.

    After one was received nothing that follows can be understood: close the connection, as RocketMQ does.
    """
