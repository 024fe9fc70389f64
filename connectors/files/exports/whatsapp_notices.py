"""WhatsApp's own words in the phone's language: AM and PM, file names, deleted and edited messages."""

from __future__ import annotations

import re

__all__ = ["AFTERNOON", "DELETED_WORDS", "EDITED_WORDS", "MORNING", "TITLE"]

AFTERNOON = re.compile(r"p\.?\s?m\b\.?|下午|午後|오후|晚上|中午|م", re.IGNORECASE)
MORNING = re.compile(r"a\.?\s?m\b\.?|上午|午前|오전|早上|凌晨|ص", re.IGNORECASE)
TITLE = re.compile(
    r"^(whatsapp[- ]chat(?: with| mit| -| met)?|chat de whatsapp con|conversa do whatsapp com"
    r"|discussion whatsapp avec|chat whatsapp con)\s+",
    re.IGNORECASE,
)
DELETED_WORDS = (
    "this message was deleted",
    "you deleted this message",
    "diese nachricht wurde gelöscht",
    "du hast diese nachricht gelöscht",
    "se eliminó este mensaje",
    "eliminaste este mensaje",
    "ce message a été supprimé",
    "vous avez supprimé ce message",
    "questo messaggio è stato eliminato",
    "hai eliminato questo messaggio",
    "mensagem apagada",
    "essa mensagem foi apagada",
    "você apagou esta mensagem",
    "dit bericht is verwijderd",
    "bu mesaj silindi",
    "данное сообщение удалено",
    "このメッセージは削除されました",
    "メッセージを削除しました",
)
EDITED_WORDS = (
    "this message was edited",
    "diese nachricht wurde bearbeitet",
    "se editó este mensaje",
    "ce message a été modifié",
    "questo messaggio è stato modificato",
    "mensagem editada",
    "dit bericht is bewerkt",
    "このメッセージは編集されました",
)
