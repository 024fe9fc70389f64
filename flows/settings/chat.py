"""The settings for live chat platforms, a mixin for `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

__all__ = ["ChatSettings"]


class ChatSettings(BaseModel):
    """How to log in to Slack and Matrix, what to read, and what not to store."""

    slack_app_token: SecretStr | None = Field(
        None, description="App-level token for the connection to Slack, xapp-..."
    )
    slack_bot_token: SecretStr | None = Field(
        None, description="Bot token for the Web API of Slack, xoxb-..."
    )
    slack_api_url: str = Field(
        "https://slack.com/api/", pattern=r"^https?://.*/$", description="URL of the Web API of Slack."
    )
    matrix_homeserver: str | None = Field(
        None, pattern=r"^https?://", description="URL of the Matrix homeserver."
    )
    matrix_access_token: SecretStr | None = Field(
        None, description="Access token of the Matrix account that reads."
    )
    backfill_days: float = Field(
        30, ge=0, description="Days of past messages to read from a live channel that is new."
    )
    opt_out_word: str = Field(
        "#nolog", description="Word that keeps a live message from being stored; '' turns this off."
    )
    inbox_days: float = Field(7, ge=0, description="Days to keep live messages in the inbox after use.")
