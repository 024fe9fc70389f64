"""Language models: OpenAI-compatible servers, vLLM in process, recorded answers."""
