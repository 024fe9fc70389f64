"""The base of every error that a person can fix.

BackscrollError
├── MemoryStrategyError a memory strategy is unknown or cannot be used
├── FormatError         a file cannot be read as a chat
├── HistoryError        the stored history contradicts what is asked of it
├── StateError          the recovery state is of another version
├── StoreError          the store cannot be used
├── KafkaError          a broker, topic or record cannot be used
├── ChatError           a chat platform cannot be used
├── EmbedderError       the embedding model cannot be used
├── LLMSetupError       the language model cannot be used as configured
├── SettingsError       a setting is wrong
├── ClusterError        a worker process failed
└── BenchmarkError      a benchmark's files cannot be used
"""

from __future__ import annotations

__all__ = ["BackscrollError"]


class BackscrollError(Exception):
    """A failure that the reader of its text can fix: one line says what, where, and what would be right.

    Commands print the line and exit with 2. Any other exception is a defect and shows a traceback.
    """
