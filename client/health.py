"""How far a client's view can be trusted: where it comes from, and which losses are believed; pure.

Every `now` is in seconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from .observers import Tell
from .observers.events import FeedLost, LossHeld, LossReleased, Source, SourceChanged
from .observers.state import LossReason

MASS_LOSS_SHARE: Final = 0.5
"""A loss of more than this share of the live brokers in use is not believed at once: one zone of two may
die, a larger part looks like a fault of the store."""

Belief: TypeAlias = Literal["hold", "doubt", "believe"]
"""hold: keep all that an answer lacks; doubt: keep what the stream has not told of; believe: keep nothing."""

Ending: TypeAlias = Literal["returned", "confirmed", "time", "accepted"]
"""How nothing is held back any more; see LossReleased."""


_NOTHING: Final[frozenset[Any]] = frozenset()


class HeldNames:
    """The brokers, or the topics, that are served although the last answer lacked them, or a part of them."""

    def __init__(self) -> None:
        self.held: dict[str, float] = {}
        """By name: since when, in seconds of the monotonic clock."""

        self.any_believed = False
        """Whether something that was held is lost."""

        self._announced: dict[str, set[int]] = {}
        self._doubted: dict[str, tuple[int, frozenset[Any]]] = {}
        """By name: what answers lacked, and the newest number when all of that was first lacking."""

        self._doubts_until = -1
        """The newest number when something was first lacking."""

        self._stream_read = 0
        """The number of the last read of the stream that found the client's place."""

    def announced(self, name: str, broker_id: int) -> None:
        """Note that the feed told of the end of a replica: a look that agrees is the second word."""
        self._announced.setdefault(name, set()).add(broker_id)

    def revoked(self, name: str, broker_id: int) -> None:
        """Note that the feed told of a new beginning after the end."""
        self._announced.get(name, set()).discard(broker_id)

    def lacking(self, name: str) -> frozenset[Any]:
        """Return what answers have lacked of it, since it is held."""
        return self._doubted.get(name, (0, _NOTHING))[1]

    @property
    def awaits_stream(self) -> bool:
        """Whether the stream is to be read, as it has not been since an answer lacked something."""
        return self._doubts_until >= self._stream_read

    def stream_was_read(self, number: int) -> None:
        """Note that the stream goes on from the client's place: what it does not tell of may have ended."""
        self._stream_read = number

    def keeps(self, name: str, lacking: set[Any], belief: Belief, number: int) -> bool:
        """Whether to serve what the answer to this request lacks: replicas of a broker, rows of a topic."""
        if belief != "doubt":
            return belief == "hold"
        since, doubted = self._doubted.get(name, (number, _NOTHING))
        is_second = lacking <= doubted and since < self._stream_read < number
        return not (is_second or lacking <= self._announced.get(name, _NOTHING))

    def hold(self, name: str, lacking: set[Any], number: int, now: float) -> None:
        """Keep what an answer lacked; a request after the next read of the stream is a second look.

        `number`: the newest when the answer came.
        """
        self.held.setdefault(name, now)
        _, doubted = self._doubted.get(name, (number, _NOTHING))
        if not lacking <= doubted:
            self._doubted[name] = number, doubted | lacking
            self._doubts_until = number

    def settle(self, name: str) -> None:
        """Forget what was said of a loss: nothing is lacking, or nobody uses it."""
        self.held.pop(name, None)
        self._announced.pop(name, None)
        self._doubted.pop(name, None)

    def believe(self, name: str) -> None:
        """Let go of what the answers lack."""
        self.any_believed = self.any_believed or name in self.held
        self.settle(name)


class Losses:
    """What is served although the last answer lacked it, and why.

    A store that was restarted empty, rolled back or cut off looks like a fleet that died at once. So a guard
    holds losses back for `hold_s` after an answer that loses more than a share of the live brokers, or after
    the store lost changes; then it judges anew, or as soon as nothing is missing. A loss that the stream has
    not told of is doubted, since a look may reach a store that lost data before the stream is read there: it
    has to be read, and then a second look has to agree.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self.guarded_until: float | None = None
        """When losses are believed again; None while the guard is not armed."""

        self.reason: LossReason = "mass loss"
        """Why it was armed last."""

        self.brokers = HeldNames()
        self.topics = HeldNames()
        self._accepted: int | None = None
        self._why_believed: Ending = "confirmed"

    @property
    def held(self) -> set[str]:
        """Brokers and topics that are served although the last answer lacked them, or a part of them."""
        return {*self.brokers.held, *self.topics.held}

    @property
    def any_held(self) -> bool:
        """Whether anything is kept for now."""
        return bool(self.brokers.held or self.topics.held)

    def is_held(self, topic: str, broker_names: Iterable[str]) -> bool:
        """Whether the last answer lacked a part of the route of a topic, which leads to these brokers."""
        return topic in self.topics.held or not self.brokers.held.keys().isdisjoint(broker_names)

    @property
    def awaits_stream(self) -> bool:
        """Whether the stream is to be read before anything is believed."""
        return self.brokers.awaits_stream or self.topics.awaits_stream

    def stream_was_read(self, number: int) -> None:
        """Note that a read of the stream with this number has found the client's place."""
        self.brokers.stream_was_read(number)
        self.topics.stream_was_read(number)

    def is_guarded(self, now: float) -> bool:
        """Whether the guard holds all losses back."""
        return self.guarded_until is not None and now < self.guarded_until

    def changes_lost(self, now: float) -> None:
        """Hold losses back for the whole time from now on, unless something is held back already."""
        if not (self.is_guarded(now) and self.any_held):
            self.guarded_until, self.reason = now + self._hold_s, "changes lost"

    def accept(self, number: int) -> None:
        """Believe the answers to requests after this one, until all was read: an operator says so."""
        self._accepted = number
        self.guarded_until = None

    def belief(self, number: int, known: int, lost: int, now: float) -> Belief:
        """Return what to make of an answer that lacks `lost` of `known` live brokers."""
        if self._accepted is not None and number > self._accepted:
            self._why_believed = "accepted"
            return "believe"
        self._why_believed = "confirmed" if self.guarded_until is None else "time"
        return "hold" if self._guards(known, lost, now) else "doubt"

    def how_it_ended(self) -> Ending:
        """Return why nothing is held back any more, and begin anew."""
        any_believed = self.brokers.any_believed or self.topics.any_believed
        self.brokers.any_believed = self.topics.any_believed = False
        return self._why_believed if any_believed else "returned"

    def awaits(self, number: int) -> bool:
        """Whether the answer to this request came too soon to be believed, as an operator wants the next."""
        return self._accepted is not None and number <= self._accepted

    def all_read(self, number: int) -> None:
        """Everything in use was answered by this request."""
        if self._accepted is not None and number > self._accepted:
            self._accepted = None
        if not self.any_held:
            self.guarded_until = None

    def _guards(self, known: int, lost: int, now: float) -> bool:
        if self.guarded_until is None:
            if lost <= MASS_LOSS_SHARE * known:
                return False
            self.guarded_until, self.reason = now + self._hold_s, "mass loss"
        elif lost and now >= self.guarded_until:  # believed from here on; the next loss is judged anew
            self.guarded_until = None
        return self.is_guarded(now)


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

        self._holds_back = False
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

    def judge(self, losses: Losses, confirmed_at: float | None) -> None:
        """Tell when something begins to be held back, and when nothing is any more.

        `confirmed_at`: when the store had last confirmed what it then lacked.
        """
        held_back, self._holds_back = self._holds_back, losses.any_held
        if losses.any_held and not held_back:
            self._held_since = confirmed_at
            brokers, topics = sorted(losses.brokers.held), sorted(losses.topics.held)
            self._tell(LossHeld(tuple(brokers), tuple(topics)))
        elif held_back and not losses.any_held:
            self._held_since = None
            self._tell(LossReleased(losses.how_it_ended()))

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
