"""How far a client's view can be trusted: where it comes from, and when the store last confirmed it; pure."""

from __future__ import annotations

from dataclasses import dataclass

from .losses import HeldBack, HeldLoss, Losses
from .observers import Tell
from .observers.events import FeedLost, LossHeld, LossReleased, Source, SourceChanged


@dataclass(frozen=True, slots=True)
class Health:
    """How far a client's view can be trusted."""

    source: Source

    age_s: float | None
    """Seconds since the store last answered; None = it never did."""

    last_error: str | None
    """Why the store does not answer now; None = it does."""

    position: str | None
    """The id of the last change that was taken in."""

    held_losses: tuple[HeldLoss, ...]
    """What is served although the store's last answer lacked it, brokers first, each by name."""

    topics: int
    """Topics in the cache."""

    @property
    def held_brokers(self) -> tuple[str, ...]:
        """Brokers that are served although the store's last answer lacked them, or a replica of theirs."""
        return tuple(loss.name for loss in self.held_losses if loss.kind == "broker")

    @property
    def held_topics(self) -> tuple[str, ...]:
        """Topics that are served although the store's last answer lacked them, or a broker of theirs."""
        return tuple(loss.name for loss in self.held_losses if loss.kind == "topic")

    @property
    def held(self) -> tuple[str, ...]:
        """All that is served although the last answer lacked it: the brokers, then the topics."""
        return self.held_brokers + self.held_topics


class Freshness:
    """Where the routes come from and when the store confirmed them; `tell` gets the events of changes."""

    def __init__(self, tell: Tell) -> None:
        self.source: Source = "none"
        self.error: str | None = None
        """What the store fails with; None = it does not."""

        self.failures = 0
        """So many in a row."""

        self.answered_at: float | None = None
        self._tell = tell
        self.confirmed_at: float | None = None
        self._all_read = False
        """Whether everything was read since the start, or since changes were lost."""

        self._held_since: float | None = None

    def begin(self, source: Source) -> None:
        """Begin with what an earlier process knew, if anything."""
        self._come_from(source, "")

    def begin_copy(self) -> None:
        """Begin anew in a copy of the process: the store is not followed before the first use."""
        self._all_read = False
        if self.source == "live":
            self.source = "memory"

    def answered(self, now: float) -> None:
        """Note an answer; after a failure, only `caught_up` ends the trouble."""
        self.answered_at = now
        if self.error is None:
            self._come_from("live", "")

    def caught_up(self) -> None:
        """Note that everything due was answered: trouble with the store is over."""
        if self.error is not None:
            reason, self.error, self.failures = self.error, None, 0
            self._come_from("live", reason)

    def failed(self, error: str) -> None:
        """Note a failure; the first of several is an event."""
        is_news, self.error = self.error is None, error
        self.failures += 1
        if is_news:
            source: Source = self.source if self.answered_at is None else "memory"
            self._tell(SourceChanged(self.source, source, error))
            self.source = source

    def confirmed(self, now: float, *, everything: bool, heard: bool) -> None:
        """Note that the table was read: some topics and all leases in use, or everything in use.

        `heard`: whether the feed would have told of changes; what was not read is good only then.
        """
        if everything:
            self._all_read = heard
        if everything or (self._all_read and heard):
            self.confirmed_at = now

    def missed_changes(self) -> None:
        """Note that changes were missed: silence of the stream confirms nothing until all is read again."""
        self._all_read = False

    def lost(self, position: str) -> None:
        """Note that the store lost the changes after a position."""
        self._all_read = False
        self._tell(FeedLost(position))

    def judge(self, losses: Losses, before: HeldBack, confirmed_at: float | None) -> None:
        """Tell when something begins to be held back, and when nothing is any more.

        `confirmed_at`: when the store had last confirmed what it then lacked.
        """
        if losses.any_held and not before.names:
            self._held_since = confirmed_at
            brokers, topics = sorted(losses.brokers.held), sorted(losses.topics.held)
            self._tell(LossHeld(tuple(brokers), tuple(topics)))
        elif before.names and not losses.any_held:
            self._held_since = None
            self._tell(LossReleased(losses.how_it_ended(before)))

    def as_of(self, asked_at: float | None, *, held: bool) -> float | None:
        """Return when the store last confirmed a topic that it was asked for at `asked_at`; None = never."""
        if held:
            return self._held_since
        return max((at for at in (self.confirmed_at, asked_at) if at is not None), default=None)

    def _come_from(self, source: Source, reason: str) -> None:
        if source != self.source:
            self._tell(SourceChanged(self.source, source, reason))
            self.source = source
        elif reason:  # the first contact failed, and the next one did not
            self._tell(SourceChanged(source, source, reason))
