"""Language models on OpenAI-compatible chat servers: vLLM, llama.cpp, Ollama and hosted services.

Answers are constrained by `response_format` with a JSON schema. The client retries temporary failures
(connection, 408, 409, 429 with Retry-After, 5xx) with exponential back-off and jitter.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import openai
from pydantic import BaseModel

from backscroll.operators.llm.protocol import (
    Answer,
    BadAnswer,
    LLMError,
    LLMRefused,
    LLMSetupError,
    LLMUnavailable,
    Prompt,
    Usage,
    parse_answer,
)

__all__ = ["OpenAIChat", "base_url"]

T = TypeVar("T", bound=BaseModel)
# The client's own errors, and those it runs into when a body is not JSON or has an unexpected shape.
_FAULTS = (openai.OpenAIError, ValueError, TypeError, AttributeError, OverflowError)


def base_url(url: str) -> str:
    """The URL of the API; adds `/v1` if it is missing."""
    stripped = url.rstrip("/")
    return stripped if stripped.endswith("/v1") else f"{stripped}/v1"


class OpenAIChat:
    """A chat-completions client for one server.

    Args:
        url: the server's URL, with or without `/v1`.
        api_key: sent as a bearer token; servers without access control ignore it.
        timeout: seconds without data before an attempt fails.
        deadline: seconds for a call including all retries.
        max_retries: attempts after the first.
        extra_body: fields to add to every request, such as server-specific options.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        deadline: float = 300.0,
        max_retries: int = 3,
        extra_body: dict[str, Any] | None = None,
    ) -> None:
        self._url = base_url(url)
        self._deadline = deadline
        self._extra_body = extra_body
        self._options: dict[str, Any] = {
            "base_url": self._url,
            "api_key": api_key or "none",
            "timeout": openai.Timeout(timeout, connect=min(timeout, 5.0)),
            "max_retries": max_retries,
        }
        self._client = openai.AsyncOpenAI(**self._options)

    def models(self) -> list[str]:
        """Names of the models that the server offers; empty if it has no such list.

        Raises:
            LLMUnavailable: the server does not answer.
            LLMSetupError: it rejects the API key, or is not an OpenAI-compatible server.
        """
        with openai.OpenAI(**{**self._options, "max_retries": 0}) as client:
            try:
                return [model.id for model in client.models.list()]
            except (openai.AuthenticationError, openai.PermissionDeniedError) as err:
                raise LLMSetupError(f"{self._url} rejected the API key: set BACKSCROLL_LLM_API_KEY") from err
            except openai.APIStatusError as err:
                if err.status_code in (404, 405, 501):
                    return []
                raise self._translated(err) from err
            except openai.APIConnectionError as err:
                raise self._translated(err) from err
            except _FAULTS as err:
                raise LLMSetupError(f"{self._url} is not an OpenAI-compatible server: check the URL") from err

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask for one answer, constrained to the schema and validated against it."""
        try:
            async with asyncio.timeout(self._deadline):
                completion = await self._client.chat.completions.create(
                    model=prompt.model,
                    messages=[
                        {"role": "system", "content": prompt.system},
                        {"role": "user", "content": prompt.user},
                    ],
                    max_tokens=prompt.max_tokens,
                    temperature=prompt.temperature,
                    response_format={
                        "type": "json_schema",
                        "json_schema": {
                            "name": prompt.stage,
                            "schema": schema.model_json_schema(),
                            "strict": True,
                        },
                    },
                    extra_body=self._extra_body,
                )
        except TimeoutError:
            raise LLMUnavailable(f"{self._url}: no answer in {self._deadline:g} s", "timeout") from None
        except _FAULTS as err:
            raise self._translated(err) from None  # the original text may quote the chat
        return _answer(completion, schema)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _translated(self, err: Exception) -> LLMError:
        """The error as one of ours."""
        if isinstance(err, openai.APITimeoutError):
            return LLMUnavailable(f"{self._url}: the answer took too long", "timeout")
        if isinstance(err, openai.APIConnectionError):
            return LLMUnavailable(f"{self._url}: no connection", "connection")
        if isinstance(err, openai.RateLimitError):
            return LLMUnavailable(f"{self._url}: too many requests (429)", "rate_limit")
        if isinstance(err, openai.APIStatusError) and err.status_code < 500:
            return LLMRefused(f"{self._url}: the request was rejected ({err.status_code})")
        if isinstance(err, openai.APIStatusError):
            return LLMUnavailable(f"{self._url}: the server failed ({err.status_code})", "server")
        return LLMUnavailable(f"{self._url}: the server's answer is not a chat completion", "server")


def _answer(completion: Any, schema: type[T]) -> Answer[T]:
    """The answer in a completion. Servers may send malformed ones with a 200, so every field is checked."""
    spent = getattr(completion, "usage", None)
    usage = Usage(getattr(spent, "prompt_tokens", None) or 0, getattr(spent, "completion_tokens", None) or 0)
    choices = getattr(completion, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    raw = getattr(message, "content", None)
    if not isinstance(choices, list) or not isinstance(raw, str):
        raise BadAnswer("the answer is not a chat completion with text", "schema", usage)
    finished = getattr(choices[0], "finish_reason", None) != "length"
    return Answer(parse_answer(raw, schema, usage, finished=finished), usage, raw)
