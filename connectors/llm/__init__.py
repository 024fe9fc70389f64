"""Language models: OpenAI-compatible servers, vLLM in this process, and recorded answers."""
