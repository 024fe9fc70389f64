"""The outside world: files, brokers, chats, stores, embedders and model servers."""
