"""The base of every error that a person can fix.

BackscrollError
├── MemoryStrategyError a memory strategy is unknown or cannot be used
├── FormatError         a file cannot be read as a chat
├── HistoryError        a request does not fit the stored history
├── StateError          another version of the program wrote the recovery state
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
    """An error that the user can fix. Its text is one line: what went wrong, where, and how to fix it.

    Commands print the line and exit with 2. Any other exception is a bug and shows a traceback.
    """
