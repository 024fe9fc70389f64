"""Short chats as messages read for acts, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.operators.acts.classifier import ActKind, Acts, find_acts
from backscroll.operators.acts.reading import ReadMessage, read_messages
from backscroll.operators.language.salience import analyse_turns
from support.chats import chat


def read(*lines: str, minutes: int = 2) -> list[ReadMessage]:
    """The messages of lines `Author: text`, as in `chat`."""
    turns = chat(*lines, minutes=minutes)
    return read_messages(analyse_turns(turns), {turn.author.name for turn in turns})


def acts_of(*lines: str, vectors: bool = False, minutes: int = 2) -> list[Acts]:
    """What the messages of a chat do, by the packaged models."""
    messages = read(*lines, minutes=minutes)
    return find_acts(messages, embedded(tuple(one.turn.text for one in messages)) if vectors else None)


@cache
def embedded(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """Texts as vectors of the packaged embedding model."""
    return _embedder().embed_passages(list(texts))


@cache
def _embedder() -> OnnxEmbedder:
    return OnnxEmbedder()


@dataclass(frozen=True)
class ActChat:
    """A chat with clear acts: kind, owner and due date by message id; `quiet` messages do nothing."""

    lines: tuple[str, ...]
    items: dict[str, tuple[ActKind, str | None, str | None]]
    quiet: tuple[str, ...]


ENGLISH = ActChat(
    (
        "Ana: Hello everyone.",
        "Cem: hey Ana",
        "Ana: I looked at the import again. It failed because the disk was full.",
        "Ben: ah, that explains it",
        "Ana: What should we do with the old parser?",
        "Ben: Nobody has used it for years.",
        "Cem: It fails on every long file anyway.",
        "Ana: OK, agreed: we drop the old parser in the next release.",
        "Cem: I'll remove it from the docs tomorrow.",
        "Ana: Great, thanks Cem.",
        "Ana: Ben, can you write the release notes by Friday?",
        "Ben: Sure, I'll send you a draft on Thursday.",
        "Cem: haha, my cat is asleep on the keyboard",
        "Ben: Where does the replica of the store run?",
    ),
    {
        "m7": ("decision", None, None),
        "m8": ("action", "Cem", "2026-03-03"),
        "m10": ("action", "Ben", "2026-03-06"),
        "m11": ("action", "Ben", "2026-03-05"),
        "m13": ("question", None, None),
    },
    ("m0", "m1", "m3", "m5", "m9", "m12"),
)
AUDIT = ActChat(
    (
        "Ana: Morning! The audit is on Wednesday, it will be a long day.",
        "Ben: morning, I'm ready",
        "Cem: hi",
        "Ana: Ben, send them the archive file today.",
        "Ben: ok",
        "Ana: Cem, can you rotate the tokens of the agencies tomorrow?",
        "Cem: Sure, no problem.",
        "Ana: I'll write the notes by Friday. How is your berth today?",
        "Cem: Sunny and full of gulls.",
        "Ben: haha",
        "Ana: Which parser do we ship?",
        "Cem: The old one works.",
        "Ana: Ok, then we ship the old parser first. Decided.",
        "Ben: Where does the replica of the store run?",
    ),
    {
        "m3": ("action", "Ben", "2026-03-02"),
        "m5": ("action", "Cem", "2026-03-03"),
        "m7": ("action", "Ana", "2026-03-06"),
        "m12": ("decision", None, None),
        "m13": ("question", None, None),
    },
    ("m1", "m2", "m8", "m9", "m11"),
)
GERMAN = ActChat(
    (
        "Jana: Hallo zusammen!",
        "Olli: Moin.",
        "Peer: hi",
        "Jana: Halle oder Keller im März, was meint ihr?",
        "Olli: Die Halle klingt besser.",
        "Peer: Die Halle ist auch näher am Bahnhof.",
        "Jana: Gut, dann ist es entschieden: wir nehmen die Halle.",
        "Olli: Super.",
        "Jana: Peer, kannst du bitte den Vertrag bis Freitag abschicken?",
        "Peer: Ja, mache ich, ich schicke ihn am Donnerstag ab.",
        "Jana: Danke dir!",
        "Olli: Der Bus war heute so voll.",
        "Jana: Haha, wie immer.",
        "Olli: Weiß jemand, wer am Mittwoch das Metronom mitbringt?",
    ),
    {
        "m6": ("decision", None, None),
        "m8": ("action", "Peer", "2026-03-06"),
        "m9": ("action", "Peer", "2026-03-05"),
        "m13": ("question", None, None),
    },
    ("m0", "m1", "m2", "m4", "m5", "m10", "m11", "m12"),
)
SPANISH = ActChat(
    (
        "Raúl: Hola, buenas tardes a todos.",
        "Eva: Hola!",
        "Leo: Buenas.",
        "Raúl: ¿Qué hacemos con la sala? ¿La pintamos este año?",
        "Eva: Yo prefiero esperar, es muy caro.",
        "Leo: Este año no hay dinero.",
        "Raúl: Vale, entonces queda decidido: pintamos la sala el año que viene.",
        "Eva: Gracias.",
        "Raúl: Leo, ¿puedes llamar al arquitecto mañana, por favor?",
        "Leo: Claro, yo lo llamo mañana y os aviso.",
        "Raúl: Gracias Leo!",
        "Eva: Ayer el partido fue muy aburrido, jaja.",
        "Raúl: Jaja, sí.",
        "Eva: ¿Alguien sabe dónde está la llave del almacén?",
    ),
    {
        "m6": ("decision", None, None),
        "m8": ("action", "Leo", "2026-03-03"),
        "m9": ("action", "Leo", "2026-03-03"),
        "m13": ("question", None, None),
    },
    ("m0", "m1", "m2", "m4", "m5", "m10", "m11", "m12"),
)
JAPANESE = ActChat(
    (
        "佐藤: おはようございます。",
        "森: おはようございます!",
        "林: おはようございます。",
        "佐藤: 公開日はいつがいいですか?",
        "森: 11日は準備が間に合わないです。",
        "林: 18日なら間に合います。",
        "佐藤: では、公開日は6月18日に決まりました。18日でいきましょう。",
        "森: 了解です。",
        "森: お知らせの文章は私が書きます。水曜日までに送ります。",
        "佐藤: ありがとうございます。",
        "林: お昼のラーメンがとても美味しかったです。",
        "佐藤: 本当に寒いですね。",
        "林: 広告のバナーは誰が持っていますか?",
    ),
    {
        "m6": ("decision", None, None),
        "m8": ("action", "森", "2026-03-04"),
        "m12": ("question", None, None),
    },
    ("m0", "m1", "m2", "m4", "m5", "m9", "m10", "m11"),
)
CHATS = {"en": ENGLISH, "en-audit": AUDIT, "de": GERMAN, "es": SPANISH, "ja": JAPANESE}

SMALL_TALK = {
    "en": (
        "Ana: Good morning, how are you?",
        "Ben: Hi Ana! Fine, and you?",
        "Ana: A bit tired, the neighbours were dancing until two.",
        "Ben: haha, oh no",
        "Cem: Good morning :)",
        "Ana: And how was your weekend?",
        "Cem: We were at the lake, it was lovely.",
        "Ben: nice!",
        "Cem: My daughter saw a heron.",
        "Ana: wow",
        "Ben: My cat is asleep on the printer.",
    ),
    "de": (
        "Jana: Guten Morgen!",
        "Olli: Moin, alles gut bei dir?",
        "Jana: Ja, nur müde, die Katze war die ganze Nacht wach.",
        "Peer: haha, unsere auch",
        "Olli: Wie war das Konzert?",
        "Peer: Laut, aber schön.",
        "Jana: Das freut mich.",
        "Olli: Der Bus war heute wieder voll.",
        "Peer: Ich werde nie verstehen, warum.",
        "Jana: lol",
        "Olli: Meine Oma hatte gestern Geburtstag.",
        "Jana: Oh, schön!",
    ),
    "es": (
        "Raúl: Buenos días.",
        "Eva: Buenos días, hace mucho frío hoy.",
        "Raúl: Estoy un poco cansado, el gato no me dejó dormir.",
        "Leo: jajaja",
        "Eva: Ayer vi una película muy larga.",
        "Leo: Yo vi el partido, fue aburrido.",
        "Eva: Jaja, sí.",
        "Leo: Aquí llueve mucho.",
        "Eva: Mi abuela cumplió noventa años.",
        "Raúl: ¡Felicidades!",
        "Leo: Buenas noches.",
    ),
    "ja": (
        "佐藤: おはようございます。",
        "森: おはようございます。今日は寒いですね。",
        "林: 本当に寒いですね。",
        "佐藤: 昨日の映画は長かったです。",
        "森: 私も見ました。",
        "林: うちの猫がずっと寝ています。",
        "佐藤: かわいいですね。",
        "森: お昼はラーメンでした。",
        "林: とても美味しそうです。",
        "佐藤: 雨が降っています。",
        "森: こちらは雪です。",
        "林: すごい。",
    ),
}
