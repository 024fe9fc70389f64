"""Kafka errors that a user can fix.

    KafkaError
    ├── UnreachableError      no broker answers, or the server is not Kafka
    ├── AuthenticationError   the login is rejected, or a certificate is not trusted
    ├── TopicError            a topic does not exist, or access is denied
    ├── OffsetError           the offset to resume from no longer exists
    ├── BatchError            records cannot be decoded: a codec is missing, or they are corrupt
    ├── RecordTooLargeError   a record exceeds the brokers' size limit
    └── UndeliveredError      records were not acknowledged; they are sent again after a restart

Each message is one line: the problem, where it occurred, and how to fix it. It never contains chat text or
secrets.
"""

from __future__ import annotations

from backscroll.operators.errors import BackscrollError

__all__ = [
    "AuthenticationError",
    "BatchError",
    "KafkaError",
    "OffsetError",
    "RecordTooLargeError",
    "TopicError",
    "UndeliveredError",
    "UnreachableError",
]


class KafkaError(BackscrollError):
    """A Kafka error that the user can fix; the message says how, in one line."""


class UnreachableError(KafkaError):
    """No broker answers, or the server at that address is not Kafka."""


class AuthenticationError(KafkaError):
    """The brokers reject the login, or their certificate is not trusted."""


class TopicError(KafkaError):
    """A topic does not exist, or access to it is denied."""


class OffsetError(KafkaError):
    """The offset to resume from no longer exists: retention deleted it, or the topic was recreated."""


class BatchError(KafkaError):
    """Records cannot be decoded: the codec they are compressed with is not installed, or they are corrupt."""


class RecordTooLargeError(KafkaError):
    """A record exceeds the brokers' size limit."""


class UndeliveredError(KafkaError):
    """Records were not acknowledged in time. After a restart the epoch is replayed, which resends them."""
