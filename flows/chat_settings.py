"""The settings of live chat platforms, a mixin for `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

__all__ = ["ChatSettings"]


class ChatSettings(BaseModel):
    """How to log in to Slack and Matrix, what to read, and what not to store."""

    slack_app_token: SecretStr | None = Field(None, description="xapp-..., for the connection to Slack")
    slack_bot_token: SecretStr | None = Field(None, description="xoxb-..., for Slack's Web API")
    slack_api_url: str = Field(
        "https://slack.com/api/", pattern=r"^https?://.*/$", description="of Slack's Web API"
    )
    matrix_homeserver: str | None = Field(
        None, pattern=r"^https?://", description="URL of the Matrix homeserver"
    )
    matrix_access_token: SecretStr | None = Field(None, description="of the Matrix account that reads")
    backfill_days: float = Field(30, ge=0, description="of a live channel's past, read when it is met first")
    opt_out_word: str = Field("#nolog", description="live messages with it are not stored; '' for no word")
    inbox_days: float = Field(7, ge=0, description="how long live messages stay in the inbox after use")
