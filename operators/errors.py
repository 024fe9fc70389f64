"""The base of every error that a person can fix.

BackscrollError
├── AccessError          the file of who may read what cannot be used
├── BenchmarkError       a benchmark's files cannot be used
├── ChatError            a chat platform cannot be used
├── ClusterError         a worker process failed
├── EmbedderError        the embedding model cannot be used
├── FormatError          a file cannot be read as a chat
├── HistoryError         the stored history contradicts what is asked of it
│   └── StoreError       the store cannot be used
├── KafkaError           a broker, topic or record cannot be used
├── LLMSetupError        the language model cannot be used as configured
├── LanguageFileError    a language file is wrong
├── MemoryStrategyError  a memory strategy is unknown or cannot be used
├── PeriodError          a time or message id cannot be understood
├── SettingsError        a setting is wrong
└── StateError           the recovery state is damaged or of another version
"""

from __future__ import annotations

__all__ = ["BackscrollError"]


class BackscrollError(Exception):
    """An error that the user can fix. Its text is one line: what went wrong, where, and how to fix it.

    Commands print the line and exit with 2. Any other exception is a bug and shows a traceback.
    """
