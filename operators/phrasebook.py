"""What decisions, promises, requests and dates look like in four languages, and headings in each.

`operators.cues` finds what leans on something earlier; this finds what a reader who was away has to
know. A text in another language has the English phrase book, whose patterns then rarely match.
Patterns are searched without regard to case; those of Japanese are not bound to words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from operators.cues import ENGLISH, GERMAN, JAPANESE, SPANISH, Lexicon

__all__ = ["PHRASE_BOOKS", "PhraseBook"]


@dataclass(frozen=True, eq=False)
class PhraseBook:
    """Patterns and headings of one language.

    Attributes:
        code: ISO 639-1.
        decided: a decision, in the sentence that takes or reports it.
        promised: the author will do something.
        requested: somebody is asked to do something.
        rhetorical: a question that waits for no answer.
        weekdays: Monday to Sunday, each as a pattern.
        months: January to December, each as a pattern.
        days: patterns of relative days, and how many days ahead they are.
        before_dates: what may stand before a date and belongs to it ("by", "until").
        past: what before a date says that it is over ("last", "since").
        headings: the words of a digest, by name.
    """

    code: str
    decided: tuple[str, ...]
    promised: tuple[str, ...]
    requested: tuple[str, ...]
    rhetorical: tuple[str, ...]
    weekdays: tuple[str, ...]
    months: tuple[str, ...]
    days: Mapping[str, int]
    before_dates: str
    past: str
    headings: Mapping[str, str] = field(default_factory=dict)
    spaced: bool = True

    @cached_property
    def decision(self) -> re.Pattern[str]:
        """Matches where a decision is."""
        return self._any(self.decided)

    @cached_property
    def promise(self) -> re.Pattern[str]:
        """Matches where the author promises something."""
        return self._any(self.promised)

    @cached_property
    def request(self) -> re.Pattern[str]:
        """Matches where somebody is asked to do something."""
        return self._any(self.requested)

    @cached_property
    def rhetoric(self) -> re.Pattern[str]:
        """Matches questions that wait for no answer."""
        return self._any(self.rhetorical)

    def _any(self, phrases: Iterable[str]) -> re.Pattern[str]:
        body = "|".join(phrases) or r"(?!)"
        return re.compile(rf"(?<!\w)(?:{body})(?!\w)" if self.spaced else body, re.IGNORECASE)


def _lines(text: str) -> tuple[str, ...]:
    """One pattern a line; a line that begins with `|` goes on with the one before."""
    joined = re.sub(r"\n\s*\|", "|", text)
    return tuple(line.strip() for line in joined.splitlines() if line.strip())


_EN = PhraseBook(
    code="en",
    decided=_lines(
        r"""
        we(?:'ve| have)? (?:decided|settled|agreed|chose)(?! (?:on|not)\b)
        (?:it is|it's|is|was|all|that's) (?:decided|agreed|approved|settled)
        decision(?: no\.?)? \d+
        decided(?: to| on| against| that)
        (?<!the )(?<!as )(?<!we )agreed(?! (?:on|not|answer)\b)[.:,!]
        let's (?:do|go with|go for|keep|use|take|ship|drop|merge|stick|say|move)(?! (?:on
        |in mind|that|going|an? (?:look|step|break|moment|guess)|[^.?!]{0,30}\bexamples?)\b)
        we (?:keep|go with|take|use|drop|ship|stick with|will go with|stay with)
        we(?:'re| are) going with|going with
        it stays (?:as|the way|that way)
        (?:fine|ok|okay), parked
        (?:sign-off|approval|permission)[^.]{0,40} granted
        then for me
        \A(?:approved|accepted|signed)
        'll go with|i don't want the .{3,40} anymore
        """
    ),
    promised=_lines(
        r"""
        (?:i'll|i will|we'll|we will)(?! (?:not|never|be|remember|have to|need)\b)
        i(?:'m| am) (?:going to|gonna|writing|preparing|working on|taking(?! (?:it|things|one|each|a break)\b)
        |doing(?! (?:well|great|good|fine|ok|okay|alright|better|pretty|really|so|my best)\b))
        i (?:take|start|build|finally build|fix|write|send|call|talk|inform|remind|ask|check|book|make|prepare
        |review|import|add|deliver|try|bring|apologi[sz]e)(?! (?:it was|that|this)\b)
        on it|mine|i own (?:it|this)|i promise
        """
    ),
    requested=_lines(
        r"""
        please
        can you|could you|would you|will you|can somebody|could somebody|can someone|could someone
        (?:i|we) need you to|make sure|don't forget|remember to
        """
    ),
    rhetorical=_lines(
        r"""
        right\?|you know\?|ok\?|okay\?|really\?|seriously\?|why not\?|who cares\?|isn't it\?
        """
    ),
    weekdays=("mon(?:day)?", "tues?(?:day)?", "wed(?:nesday)?", "thu(?:rs(?:day)?)?", "fri(?:day)?",
              "sat(?:urday)?", "sun(?:day)?"),
    months=("jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?",
            "aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?"),
    days={"today": 0, "tonight": 0, "this (?:morning|afternoon|evening)": 0, "tomorrow": 1,
          "the day after tomorrow": 2},
    before_dates="by|until|till|before|on|from|starting|due|this|next",
    past="last|since|past|previous",
    headings={
        "for_me": "For {me}", "decisions": "Decisions", "actions": "Action items",
        "questions": "Open questions", "highlights": "Highlights",
        "range": "{messages} from {start} to {end} ({zone})", "one": "1 message", "many": "{n} messages",
        "people": "{n} people", "person": "1 person", "nothing": "Nothing new",
        "span": "from {start} to {end} ({zone})", "now": "now", "newest": "the newest message is of {time}",
        "left_out": "Left out", "bots": "from bots: {n}", "deleted": "deleted: {n}",
        "items": "lines over the limit: {n}", "unmentioned": "messages that no line rests on: {n}",
        "dropped": "lines of the model that no message holds: {n}", "quiet": "Nothing new in",
        "read": "read", "skim": "skim", "skip": "skip", "anyone": "nobody named",
        "degraded": "the language model failed, rules stood in",
    },
)  # fmt: skip

_DE = PhraseBook(
    code="de",
    decided=_lines(
        r"""
        (?:haben|ist|sind|hat|wurde|wird) .{0,60}(?:entschieden|beschlossen|vereinbart|genehmigt|festgelegt)
        (?:entschieden|beschlossen|vereinbart|genehmigt|abgemacht|entscheidung|beschluss)
        (?:nehmen|machen|behalten|verschieben|streichen) wir(?! das mal\b)
        wir (?:nehmen|behalten|bleiben bei|verschieben|streichen|entscheiden uns für)
        (?:es )?bleibt (?:es )?bei
        so machen wir (?:es|das)
        """
    ),
    promised=_lines(
        r"""
        ich (?:werde|mache|schicke|übernehme|rufe|schreibe|baue|prüfe|bringe|besorge|erledige|bestelle|frage)
        ich (?:kümmere mich|sage bescheid|melde mich|bereite|buche|teste|kläre|komme|lasse)
        (?:mach|mache|übernehme|erledige|schicke|prüfe|kläre|bestelle|schreibe|besorge) ich
        """
    ),
    requested=_lines("bitte|kannst du|könntest du|könnt ihr|kann jemand|könnte jemand|würdest du|denk daran"),
    rhetorical=_lines(r"oder\?|nicht wahr\?|echt\?|wirklich\?|ok\?|gell\?"),
    weekdays=("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "(?:samstag|sonnabend)", "sonntag"),
    months=("januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
            "november", "dezember"),
    days={"heute": 0, "heute (?:abend|nachmittag|mittag)": 0, "morgen": 1, "übermorgen": 2},
    before_dates="bis|bis zum|vor|am|ab|nächsten|nächste|zum|diesen",
    past="letzten|letzte|seit|vorigen|guten",
    headings={
        "for_me": "Für {me}", "decisions": "Entscheidungen", "actions": "Aufgaben",
        "questions": "Offene Fragen", "highlights": "Das Wichtigste",
        "range": "{messages} vom {start} bis {end} ({zone})", "one": "1 Nachricht", "many": "{n} Nachrichten",
        "people": "{n} Personen", "person": "1 Person", "nothing": "Nichts Neues",
        "span": "vom {start} bis {end} ({zone})", "now": "jetzt",
        "newest": "die neueste Nachricht ist von {time}",
        "left_out": "Ausgelassen", "bots": "von Bots: {n}", "deleted": "gelöscht: {n}",
        "items": "Zeilen über der Grenze: {n}",
        "unmentioned": "Nachrichten, auf denen keine Zeile beruht: {n}",
        "dropped": "Zeilen des Modells, die in keiner Nachricht stehen: {n}", "quiet": "Nichts Neues in",
        "read": "lesen", "skim": "überfliegen", "skip": "überspringen", "anyone": "niemand genannt",
        "degraded": "das Sprachmodell ist ausgefallen, Regeln sind eingesprungen",
    },
)  # fmt: skip

_ES = PhraseBook(
    code="es",
    decided=_lines(
        r"""
        (?:hemos|he|han) (?:decidido|acordado|aprobado|elegido)
        (?:decidimos|acordamos|quedamos en|elegimos|aprobamos)
        (?:decidido|acordado|aprobado|aprobada|confirmado|confirmada)
        (?:vamos con|nos quedamos con|se queda|mantenemos|cancelamos|aplazamos)
        """
    ),
    promised=_lines(
        r"""
        (?:yo )?(?:me encargo|me ocupo|lo hago|la hago|lo haré|lo reviso|la reviso|lo miro)
        voy a
        (?:yo )?(?:llamo|envío|mando|escribo|preparo|reservo|compro|traigo|reviso|pregunto
        |confirmo|presento|convoco|adjunto)
        (?:llamaré|enviaré|mandaré|escribiré|prepararé|reservaré|compraré|traeré|revisaré|preguntaré|confirmaré)
        (?:lo|la|los|las|le|les|os) (?:llamo|envío|mando|escribo|preparo|reservo|compro|traigo|reviso|confirmo
        |pregunto|convoco|adjunto)
        """
    ),
    requested=_lines("por favor|puedes|podrías|podéis|pueden|puede alguien|no olvides|no te olvides"),
    rhetorical=_lines(r"verdad\?|¿no\?|, no\?|¿en serio\?|¿sí\?"),
    weekdays=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    months=("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
            "octubre", "noviembre", "diciembre"),
    days={"hoy": 0, "esta (?:tarde|noche)": 0, "mañana": 1, "pasado mañana": 2},
    before_dates="para el|antes del|hasta el|el|para|antes de|este|a partir del|del|hasta",
    past="pasado|desde el|desde|la|esta|por la|de la",
    headings={
        "for_me": "Para {me}", "decisions": "Decisiones", "actions": "Tareas",
        "questions": "Preguntas abiertas", "highlights": "Lo más destacado",
        "range": "{messages} del {start} al {end} ({zone})", "one": "1 mensaje", "many": "{n} mensajes",
        "people": "{n} personas", "person": "1 persona", "nothing": "Nada nuevo",
        "span": "del {start} al {end} ({zone})", "now": "ahora", "newest": "el último mensaje es de {time}",
        "left_out": "Omitidos", "bots": "de bots: {n}", "deleted": "borrados: {n}",
        "items": "líneas por encima del límite: {n}",
        "unmentioned": "mensajes en los que no se basa ninguna línea: {n}",
        "dropped": "líneas del modelo que no están en ningún mensaje: {n}", "quiet": "Nada nuevo en",
        "read": "leer", "skim": "hojear", "skip": "saltar", "anyone": "nadie en concreto",
        "degraded": "el modelo de lenguaje falló y se usaron reglas",
    },
)  # fmt: skip

_JA = PhraseBook(
    code="ja",
    decided=_lines(
        r"""
        決まり|決定(?!権)|に決め|に決まっ|にしましょう|でいきましょう|ことにし(?:ます|ました)|採用し|承認
        |にします|[こそ]うしましょう|で[行い]きます|延期し(?:ます|ました)
        """
    ),
    promised=_lines(
        r"""
        しておきます|やります|対応します|送ります|作ります|確認します|連絡します|予約します|準備します
        |調べます|直します|担当します|更新します|書きます|持っていきます|電話します|引き受けます|提出します
        |設定します|聞いてみます
        """
    ),
    requested=_lines("お願い|ください|もらえますか|いただけますか|くれますか|頼みます"),
    rhetorical=_lines(r"ですよね[？?]|でしょ[？?]|本当[？?]"),
    weekdays=tuple(f"{day}曜日?" for day in "月火水木金土日"),
    months=(),
    days={"今日": 0, "本日": 0, "今夜": 0, "明日": 1, "あした": 1, "明後日": 2, "あさって": 2},
    before_dates="今週の|来週の|今度の",
    past="先週の|昨日の|前の",
    headings={
        "for_me": "{me}さんへ", "decisions": "決定事項", "actions": "やること", "questions": "未回答の質問",
        "highlights": "主な話題", "range": "{start} から {end} まで {messages}({zone})",
        "one": "メッセージ1件", "many": "メッセージ{n}件", "people": "{n}人", "person": "1人",
        "nothing": "新着はありません", "span": "{start} から {end} まで({zone})", "now": "現在",
        "newest": "最新のメッセージは {time}", "left_out": "省略", "bots": "ボット{n}件",
        "deleted": "削除{n}件",
        "items": "上限を超えた行 {n}件", "unmentioned": "どの行にも使われていないメッセージ {n}件",
        "dropped": "どのメッセージにもないモデルの行 {n}件", "quiet": "新着なし", "read": "読む",
        "skim": "ざっと読む", "skip": "飛ばす", "anyone": "担当未定",
        "degraded": "言語モデルが失敗し、規則で代用しました",
    },
    spaced=False,
)  # fmt: skip

PHRASE_BOOKS: tuple[tuple[Lexicon, PhraseBook], ...] = (
    (ENGLISH, _EN),
    (GERMAN, _DE),
    (SPANISH, _ES),
    (JAPANESE, _JA),
)
