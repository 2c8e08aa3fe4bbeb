"""The queue of messages that a person types while Claude Code's agent works."""

from __future__ import annotations

from typing import NamedTuple

from memory_ci.sources.transcripts.builder import Place


class QueuedMessage(NamedTuple):
    """A message that was typed while the agent worked, and where it was read."""

    text: str
    place: Place


class MessageQueue:
    """The messages that are typed while the agent works.

    Records of type `queue-operation` change it. `enqueue` adds a message. `remove` hands one to the
    running turn, and mostly no other record has its text; newer versions write a `queued_command`
    attachment with the text just before it. `dequeue` starts a new turn with a message, and a
    `user` record with the text follows. `popAll` takes all messages back into the editor.

    Attributes:
        waiting: the messages that were added and have not left, by their text, the oldest first.
        dequeued: the messages that `dequeue` took out and whose `user` record was not read yet, by
            their text.
        _delivered_texts: the texts of the messages that were handed to the running turn.
        _expected_remove_count: how many `remove` operations are still to come whose message an
            attachment has handed over already.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, QueuedMessage] = {}
        self.dequeued: dict[str, QueuedMessage] = {}
        self._delivered_texts: set[str] = set()
        self._expected_remove_count = 0

    def apply_operation(self, operation: object, message: QueuedMessage) -> QueuedMessage | None:
        """Change the queue as one operation says: `enqueue`, `popAll`, `remove` or `dequeue`.

        Args:
            operation: the name of the operation.
            message: the message that the record of the operation names, with the record's place;
                its text may be empty.

        Returns:
            The message that a `remove` hands to the running turn; None for other operations, and
            if an attachment has handed it over before.
        """
        if operation == "enqueue" and message.text:
            self.waiting[message.text] = message
        elif operation == "popAll":
            self.waiting.clear()
        elif operation == "remove" and self._expected_remove_count:
            self._expected_remove_count -= 1
        elif operation == "remove" and self.waiting:
            removed = self._pop_waiting(message.text)
            self._delivered_texts.add(removed.text)
            return removed
        elif operation == "dequeue" and self.waiting:
            removed = self._pop_waiting(message.text)
            # A message that is dequeued on the line after its `enqueue` did not wait: the agent
            # was idle, so its turn is an ordinary one.
            if removed.place.line != message.place.line - 1:
                self.dequeued[removed.text] = removed
        return None

    def _pop_waiting(self, text: str) -> QueuedMessage:
        """Remove and return the waiting message with a text, or the oldest if none has it."""
        if text not in self.waiting:
            text = next(iter(self.waiting))
        return self.waiting.pop(text)

    def take_attached(self, message: QueuedMessage) -> QueuedMessage | None:
        """Take the message out of the queue that an attachment hands to the running turn.

        Newer versions write such an attachment just before the `remove` of the message. That
        operation then has no effect. Where the `remove` came first, it has returned the message.

        Returns:
            The message as it was queued, else as the attachment has it; None if a `remove` returned
            it before.
        """
        if message.text in self._delivered_texts:
            self._delivered_texts.remove(message.text)
            return None
        if message.text in self.waiting:
            self._expected_remove_count += 1
        self._delivered_texts.add(message.text)
        return self.waiting.pop(message.text, message)

    def was_delivered(self, text: str) -> bool:
        """Return whether a message with this text was handed to the running turn."""
        return text in self._delivered_texts

    def forget_delivered(self) -> None:
        """Forget the messages handed to a turn: only the next `user` record can repeat them."""
        self._delivered_texts.clear()

    def take_messages_in(self, text: str) -> bool:
        """Remove the messages that a turn consists of, and return whether there were any.

        Claude Code may join several dequeued messages to one turn, so each text that occurs in the
        turn counts. A message that still waits must be the whole turn.
        """
        contained_texts = [queued_text for queued_text in self.dequeued if queued_text in text]
        for queued_text in contained_texts:
            del self.dequeued[queued_text]
        waiting_message = self.waiting.pop(text, None)
        return bool(waiting_message or contained_texts)
