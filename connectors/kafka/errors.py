"""What can go wrong with Kafka that is a user's to mend.

    KafkaError
    ├── UnreachableError      no broker answers, or what answers is not Kafka
    ├── AuthenticationError   the brokers refuse the login, the certificate is not trusted
    ├── TopicError            a topic does not exist or may not be used
    ├── OffsetError           the place to read on from is gone
    ├── BatchError            records cannot be decoded: a codec is missing, or they are corrupt
    ├── RecordTooLargeError   a record exceeds what the brokers take
    └── UndeliveredError      records were not acknowledged; they are sent again after a restart

An error is one line that says what, where, and what would be right. It never holds chat text or secrets.
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
    """Something about Kafka is the user's to mend; one line says what would be right."""


class UnreachableError(KafkaError):
    """No broker answers, or what answers there is not Kafka."""


class AuthenticationError(KafkaError):
    """The brokers refuse the login, or their certificate is not trusted."""


class TopicError(KafkaError):
    """A topic does not exist or may not be used."""


class OffsetError(KafkaError):
    """The place to read on from is gone: retention has deleted it, or the topic was made anew."""


class BatchError(KafkaError):
    """Records cannot be decoded: the codec they are compressed with is not installed, or they are corrupt."""


class RecordTooLargeError(KafkaError):
    """A record exceeds what the brokers take."""


class UndeliveredError(KafkaError):
    """Records were not acknowledged in time; the epoch is replayed and they are sent again."""
