"""Settings become the two model stages: one model, in layers, behind gaps and summaries."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from connectors.cassette import Cassette, Recorder
from connectors.openai_llm import LLMSetupError, OpenAIChat
from flows.settings import Settings
from operators.extractive import ExtractiveSummarizer
from operators.gaps import GapDetector
from operators.llm import LLM, LLMUnavailable
from operators.metrics import Metered
from operators.paid import AnswerStore, PaidAnswers, Spending
from operators.resilience import CircuitBreaker, Limited, SecondTry
from operators.stages import (
    ExtractiveWriting,
    GapStage,
    ModelGaps,
    ModelWriting,
    RuleGaps,
    SummaryStage,
)

__all__ = ["make_stages"]

_LOG = logging.getLogger("backscroll")


@dataclass(frozen=True, slots=True)
class _Chosen:
    llm: LLM
    gap_model: str
    summary_model: str


def make_stages(
    settings: Settings, detector: GapDetector, store: AnswerStore, *, recorded: bool, processes: int = 1
) -> tuple[GapStage, SummaryStage]:
    """The stages for gaps and summaries that the settings ask for.

    Args:
        settings: the engine's settings.
        detector: finds gaps without a model.
        store: keeps paid answers.
        recorded: gaps come from a file, whatever the model.
        processes: how many share the day's tokens.

    Raises:
        LLMSetupError: the model cannot be used; said at the start, not at the first window.
    """
    rules = RuleGaps(detector)
    extractive = ExtractiveWriting(ExtractiveSummarizer(settings.summary_tokens))
    if settings.llm is None:
        return rules, extractive
    chosen = _choose(settings)
    spending = Spending(
        store.spent,
        per_day=settings.max_tokens_per_day,
        processes=processes,
        per_channel_day=settings.max_tokens_per_channel_day,
    )
    breaker = CircuitBreaker(
        Metered(chosen.llm), failures=settings.breaker_failures, seconds=settings.breaker_seconds
    )
    llm = SecondTry(Limited(PaidAnswers(breaker, store, spending), settings.llm_concurrency))
    fail = settings.on_llm_failure == "dead-letter"
    gaps = rules if recorded else ModelGaps(llm, chosen.gap_model, None if fail else rules)
    return gaps, ModelWriting(
        llm,
        chosen.summary_model,
        extractive,
        max_tokens=settings.summary_tokens,
        temperature=settings.summary_temperature,
        fail=fail,
        replace_unsupported=settings.on_unsupported == "replace",
    )


def _choose(settings: Settings) -> _Chosen:
    source = settings.llm or ""
    if source.startswith("cassette:"):
        cassette = Cassette(Path(source.removeprefix("cassette:")))
        return _named(settings, cassette, cassette.models, source)
    if source.startswith("vllm:"):
        from connectors.vllm_llm import VLLMInProcess

        engine = VLLMInProcess(source.removeprefix("vllm:"))
        return _named(settings, _recording(settings, engine), engine.models, source)
    if not source.startswith(("http://", "https://")):
        raise LLMSetupError(f"llm {source!r}: use the URL of a server, vllm:MODEL or cassette:FILE")
    server = OpenAIChat(
        source,
        api_key=settings.llm_api_key.get_secret_value() if settings.llm_api_key else None,
        timeout=settings.llm_timeout,
        deadline=settings.llm_deadline,
        max_retries=settings.llm_retries,
        extra_body=settings.llm_extra_body,
    )
    try:
        offered = server.models()
    except LLMUnavailable as err:
        if not (settings.gap_model and settings.summary_model):
            raise LLMSetupError(f"{err}: start it, or name --gap-model and --summary-model") from err
        _LOG.warning("%s: summaries are degraded until it answers", err)
        offered = []
    return _named(settings, _recording(settings, server), offered, source)


def _named(settings: Settings, llm: LLM, offered: list[str], source: str) -> _Chosen:
    """The models by name: those asked for, checked against what is offered, or the only one."""
    names = []
    for flag, asked in (("gap-model", settings.gap_model), ("summary-model", settings.summary_model)):
        if asked is not None and offered and asked not in offered:
            raise LLMSetupError(f"{source} has no model {asked!r}: it offers {', '.join(sorted(offered))}")
        if asked is None and len(offered) != 1:
            known = ", ".join(sorted(offered)) or "nothing that it tells of"
            raise LLMSetupError(f"{source}: name --{flag}: the server offers {known}")
        names.append(asked or offered[0])
    return _Chosen(llm, *names)


def _recording(settings: Settings, llm: LLM) -> LLM:
    return llm if settings.llm_record is None else Recorder(llm, settings.llm_record)
