"""vLLM in this process, for replaying large chats on a machine with a GPU but without a server.

Calls that wait at the same time are generated as one batch, which makes vLLM fast. Needs the extra
`backscroll[vllm]`; vllm is imported only here.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import Future
from typing import Any, TypeVar

from pydantic import BaseModel

from backscroll.operators.llm.protocol import (
    Answer,
    LLMSetupError,
    LLMUnavailable,
    Prompt,
    Usage,
    parse_answer,
)

__all__ = ["VLLMInProcess"]

T = TypeVar("T", bound=BaseModel)
_Call = tuple[Prompt, dict[str, Any], "Future[tuple[str, bool, Usage]]"]


class VLLMInProcess:
    """A model loaded by vLLM.

    Args:
        model: a hub id or a folder.
        engine: more arguments for `vllm.LLM`.

    Raises:
        LLMSetupError: vllm is not installed or cannot load the model.
    """

    def __init__(self, model: str, **engine: Any) -> None:
        try:
            from vllm import LLM
        except ImportError as err:
            raise LLMSetupError('vllm is not installed: pip install "backscroll[vllm]"') from err
        try:
            self._engine = LLM(model=model, **engine)
        except (OSError, ValueError, RuntimeError) as err:
            reason = str(err).splitlines()[0] if str(err) else type(err).__name__
            raise LLMSetupError(f"vllm cannot load {model!r}: {reason}") from err
        self.models = [model]
        self._alone = 0  # how many of the next calls to run one by one
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        threading.Thread(target=self._generate, name="backscroll-vllm", daemon=True).start()

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask for one answer, generated in a batch with the other waiting calls."""
        future: Future[tuple[str, bool, Usage]] = Future()
        self._calls.put((prompt, schema.model_json_schema(), future))
        raw, finished, usage = await asyncio.wrap_future(future)
        return Answer(parse_answer(raw, schema, usage, finished=finished), usage, raw)

    def _generate(self) -> None:
        while True:
            batch = [self._calls.get()]
            while not self._alone and not self._calls.empty():
                batch.append(self._calls.get())
            self._alone = max(self._alone - 1, 0)
            try:
                outputs = self._engine.chat(
                    [_messages(prompt) for prompt, _, _ in batch],
                    sampling_params=[_sampling(prompt, schema) for prompt, schema, _ in batch],
                    use_tqdm=False,
                )
            except Exception as err:  # keep the thread alive for later calls
                if len(batch) > 1:  # one call may be at fault, such as a prompt that is too long
                    for call in batch:
                        self._calls.put(call)
                    self._alone = len(batch)
                    continue
                for _, _, future in batch:
                    future.set_exception(LLMUnavailable(f"vllm failed: {type(err).__name__}", "server"))
                continue
            for (_, _, future), output in zip(batch, outputs, strict=True):
                written = output.outputs[0]
                usage = Usage(len(output.prompt_token_ids or ()), len(written.token_ids))
                future.set_result((written.text, written.finish_reason != "length", usage))


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]


def _sampling(prompt: Prompt, schema: dict[str, Any]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    return SamplingParams(
        temperature=prompt.temperature,
        max_tokens=prompt.max_tokens,
        structured_outputs=StructuredOutputsParams(json=schema),
    )
