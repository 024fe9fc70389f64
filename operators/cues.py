"""The vocabulary of the rules: words and phrases that point at something said earlier.

One `Lexicon` per language. English is full; Spanish and German are small; Japanese works on runs of
kanji and katakana. A phrase is a fragment of a regular expression, matched as whole words without
regard to case. Text in another language has no cue words: it is judged by length and position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

__all__ = [
    "ENGLISH",
    "GERMAN",
    "JAPANESE",
    "LEXICONS",
    "SPANISH",
    "WORD",
    "Cue",
    "Lexicon",
    "Word",
    "stem",
    "words",
]

WORD = re.compile(
    r"[\u3400-\u9fff\u3005]+|[\u30a0-\u30ff]+|[\u3040-\u309f]+"
    r"|[^\W_\u3040-\u30ff\u3400-\u9fff\u3005]+(?:['\-./_][^\W_\u3040-\u30ff\u3400-\u9fff\u3005]+)*"
)


_ENDINGS = {  # by the last letter: the ending, what stands for it, the least length of a word
    "s": (("ies", "y", 5), ("es", "", 5), ("s", "", 4)),
    "g": (("ing", "", 6),),
    "d": (("ed", "", 5),),
}


class Word(NamedTuple):
    """A word of a text: its surface, its lower case, a crude stem and its place."""

    text: str
    lower: str
    stem: str
    start: int
    end: int


class Cue(NamedTuple):
    """A phrase of the list `family` at `start:end` of a text."""

    family: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words of `text`; runs of kanji, katakana and hiragana are words of their own."""
    for match in WORD.finditer(text):
        lower = match.group().lower()
        yield Word(match.group(), lower, stem(lower), match.start(), match.end())


def stem(word: str) -> str:
    """A crude, mostly English stem: without genitive, plural and verb endings."""
    word = word.removesuffix("'s")
    for ending, put, least in _ENDINGS.get(word[-1:], ()):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + put
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


@dataclass(frozen=True)
class Lexicon:
    """Word lists (lower case, split at blanks) and phrase lists of one language.

    Attributes:
        function: words without content; they also tell which language a text is in.
        things: pronouns and demonstratives for things and statements.
        people: third-person pronouns for people.
        persons: nouns a personal pronoun may refer to.
        definite: articles and demonstratives that open a definite phrase.
        possessive: possessives that open a definite phrase.
        known: nouns a reader needs no introduction for ("the weekend").
        empty: words that fill a phrase without saying anything ("thing", "great").
        recall: phrases that name an earlier exchange ("as agreed", "you said").
        repeats: phrases that presuppose an earlier state or event ("another", "finally").
        compares: the same, but often with what is compared at hand ("other", "the same").
        answers: openers of an answer or a reaction.
        connects: openers that go on from something said before ("so", "because").
        decides: decisions whose object is elsewhere ("let's do it").
        introduces: words before a name that introduce it ("called").
        social: greetings, thanks and reactions.
        plans: plans, commitments and decisions.
        events: results, changes and personal updates.
        asks: requests and questions with content.
    """

    function: frozenset[str]
    things: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    persons: frozenset[str] = frozenset()
    definite: tuple[str, ...] = ()
    possessive: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    recall: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    compares: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    connects: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()
    introduces: tuple[str, ...] = ()
    social: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    spaced: bool = True

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[str, re.Pattern[str] | None]]]:
        """For every first word of a phrase: the lists it is in and the pattern of what follows."""
        index: dict[str, list[tuple[str, re.Pattern[str] | None]]] = {}
        for family in _families():
            for phrase in getattr(self, family):
                first, _, rest = phrase.partition(" ")
                pattern = re.compile(rf" +{rest}(?!\w)".replace(" ", r"\s"), re.IGNORECASE) if rest else None
                index.setdefault(first, []).append((family, pattern))
        return index

    @cached_property
    def _anywhere(self) -> list[tuple[str, re.Pattern[str]]]:
        """One pattern for each list, for a language written without spaces."""
        lists = [(family, getattr(self, family)) for family in _families()]
        return [
            (family, re.compile("|".join(sorted(phrases, key=len, reverse=True))))
            for family, phrases in lists
            if phrases
        ]

    def cues(self, text: str, words: Sequence[Word]) -> list[Cue]:
        """Every phrase of every list in `text`, whose words are `words`, in order."""
        if not self.spaced:
            found = [
                Cue(family, match.start(), match.end())
                for family, pattern in self._anywhere
                for match in pattern.finditer(text)
            ]
            return sorted(found, key=lambda cue: cue.start)
        cues = []
        for word in words:
            for family, pattern in self._by_first_word.get(word.lower, ()):
                if pattern is None:
                    cues.append(Cue(family, word.start, word.end))
                elif match := pattern.match(text, word.end):
                    cues.append(Cue(family, word.start, match.end()))
        return cues

    def is_function(self, word: Word) -> bool:
        """Whether a word has no content; a run of hiragana is taken for particles and endings."""
        return word.lower in self.function or "\u3040" <= word.text[0] <= "\u309f"

    def says_something(self, word: Word) -> bool:
        """Whether a word is neither a function word nor an empty one."""
        return len(word.text) > 1 and word.lower not in self.empty and not self.is_function(word)


def _families() -> list[str]:
    """The names of the phrase lists."""
    return [field.name for field in fields(Lexicon) if field.type == "tuple[str, ...]"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    """Phrases separated by commas, on any number of lines."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(",") if phrase.strip())


ENGLISH = Lexicon(
    function=_words(
        """
        a an the and or but nor so if then than as at by for from in into of off on onto out over to up
        down with without within about after before around through during between against under above
        because while until since though although whether unless i me my mine myself we us our ours
        ourselves you your yours yourself he him his himself she her hers herself it its itself they
        them their theirs themselves this that these those there here who whom whose which what when
        where why how am is are was were be been being do does did doing done have has had having will
        would shall should can could may might must not no too very just only also even ever never
        always often sometimes again still already yet now soon later ago really actually basically
        maybe perhaps probably quite rather pretty much many more most less least few lot lots some any
        all both each every either neither one ones other another such own same else im i'm i've i'd
        i'll you're you've you'd you'll he's she's it's we're we've we'd we'll they're they've they'd
        they'll that's there's here's what's who's how's where's let's let isn't aren't wasn't weren't
        don't doesn't didn't haven't hasn't hadn't won't wouldn't can't couldn't shouldn't dont cant
        didnt doesnt isnt wont thats ive youre theyre ill itll got get gets getting go goes going gonna
        went gone wanna gotta come comes coming came make makes making made take takes taking took put
        say says said know knows knew think thinks thought see sees seen saw look looks looking looked
        want wants wanted need needs like likes liked feel feels seem seems seemed mean means try trying
        tried use used using keep hope guess sure well anyway anyways yes yeah yep yup nope nah ok okay
        oh ah hey hi hello lol haha u ur r tho cuz cause etc via vs per ya yea hm hmm um uh wow btw
        """
    ),
    things=_phrases("it, its, it's, it'd, it'll, that, that's, thats, this, these, those, there"),
    people=_phrases(
        """
        he, him, his, he's, he'll, she, her, hers, she's, she'll, they, them, their, theirs, they're,
        theyre
        """
    ),
    persons=_words(
        """
        mom mum mother dad father parent parents sister brother sibling siblings son daughter wife
        husband partner boyfriend girlfriend friend friends boss manager colleague colleagues coworker
        coworkers doctor teacher coach neighbor neighbour uncle aunt cousin cousins grandma grandpa kid
        kids child children baby man woman guy guys girl boy people person team family client clients
        customer customers dog dogs cat cats puppy kitten pet pets student students someone somebody
        everyone developer developers
        """
    ),
    definite=_phrases("the, that, this, these, those"),
    possessive=_phrases("my, your, our, his, her, their, ur"),
    known=_words(
        """
        day days week weeks weekend month year years morning afternoon evening night today tomorrow
        yesterday time times moment hour hours minute minutes future past world internet web weather sun
        moon sky beach city town country home house family life way ways thing things people everyone
        everybody person mind head heart hand hands face body eyes voice name end beginning start middle
        top bottom side front back rest whole first second next last best worst most only other case
        point fact problem reason question answer idea part kind sort type lot bit news truth air ground
        floor door street road phone computer keyboard screen page link picture photo pic image video
        message chat channel group monday tuesday wednesday thursday friday saturday sunday january
        february march april may june july august september october november december christmas lol omg
        encouragement help words support friendship commitment dedication determination creativity
        abilities ability progress effort efforts feelings hard details colors passion courage mood
        smile
        """
    ),
    empty=_words(
        """
        thing things stuff something anything nothing everything someone way ways lot lots bit kind sort
        good great nice cool awesome amazing beautiful lovely fun happy glad sad bad best better big
        little new old right true today yesterday tomorrow tonight morning night day days week weeks
        month year time times moment people person guys guy man love loved thanks thank sorry please
        congrats wow hey shares image photo photography photograph picture pic long first last next able
        back start started working work works help helps pretty super definitely absolutely literally
        totally haha excited http https www com org html code
        """
    ),
    recall=_phrases(
        """
        remember (?:when|how|that|the|those|you|i|we|last|before|me|my), do you remember, i remember
        (?:you|we|when you), remembered, that reminds me, which reminds me, as agreed, as discussed, as
        mentioned, as promised, as planned, like last, you
        (?:said|told|mentioned|suggested|recommended|asked|promised|talked|were talking|were saying|were
        telling|were doing|did say|had said|shared|wanted|gave me), i
        (?:said|told|mentioned|promised|asked|talked about|was talking|was saying|was telling), we
        (?:agreed|discussed|decided|said|talked about|spoke about), they (?:said|told), he
        (?:said|told), she (?:said|told), i previously, as i said, said (?:earlier|before), mentioned
        (?:earlier|before), last time, the day before, earlier today, your
        (?:advice|suggestion|suggestions|question|tip|tips|idea|recommendation|comment|point|immediate|last),
        speaking of, told me about, told you
        about, take (?:it )?back, referring to, any (?:news|update|updates) (?:on|about|from), asked
        (?:me|you) about, how's the, hows the
        """
    ),
    repeats=_phrases(
        """
        again, another, still, instead, no longer, after all, even more, even better, better than,
        faster than, besides, apart from, the
        (?:second|third|fourth|last|next|previous|former|latter|original|old|new|remaining), one of
        those, one of them, either way, finally, already, lately, eventually, at last, realized,
        realised, used to, ended up, almost, update, no news, since we, by now, ever since, meant
        """
    ),
    compares=_phrases(
        """
        other, others, the same, the other, the others, the rest, the first, the one, that one, those
        ones, both of, similar, anymore, any more, as before, like before, back to, like that, like
        this, like these, like those, continue, continued, so far, progress, now that, closer, turns
        out, turned out, decided, fixed, fixes, solved, worked, apparently
        """
    ),
    answers=_phrases(
        """
        yes, yeah, yea, yep, yup, no, nope, nah, sure, ok, okay, k, true, right, exactly, correct,
        agreed, indeed, absolutely, definitely, of course, probably, maybe, i think so, i agree, good
        point, good idea, makes sense, same here, me too, me neither, not really, not yet, it depends, i
        see, got it, thanks, thank you, thx, oh, ah, aha, ahh, aw, aww, wow, nice, cool, great, awesome,
        amazing, congrats, congratulations, perfect, lol, haha, hm, hmm, i know, fair enough, confirmed,
        done, glad, sorry, damn, brilliant, interesting
        """
    ),
    connects=_phrases(
        """
        so, but, and, because, cause, cuz, or, also, then, though, although, however, anyway, plus,
        which, since, well, therefore, otherwise, besides, as for, in that case, if so, either way,
        maybe, or maybe, unless, except, yet, still
        """
    ),
    decides=_phrases(
        """
        let's (?:do|go|try|use|take|keep|ship|drop|merge) (?:it|that|this|them|with
        (?:it|that|this|them|the)), do (?:it|that) then, go (?:with|for) (?:it|that|this|those|the),
        i'll (?:try|do|use|take|check|fix) (?:it|that|this|them|those), will
        (?:try|do|use|take|check|fix) (?:it|that|this|them|those), gonna (?:try|do|use|take|check|fix)
        (?:it|that|this|them), going with, sounds (?:good|like a plan), works for me, go ahead
        """
    ),
    introduces=_phrases("named, called, name is, name's, meet, is a, i'm, this is, met"),
    social=_phrases(
        """
        hi, hey, hello, hiya, good (?:morning|afternoon|evening|night|day), bye, goodbye, see you, see
        ya, take care, thanks, thank you, thx, ty, cheers, welcome, you're welcome, no problem, np,
        congrats, congratulations, lol, haha, hahaha, hehe, lmao, omg, wow, aw, aww, awww, nice, cool,
        great, awesome, amazing, sweet, perfect, yay, sorry, how are you, how's it going, what's up, how
        was your, have a (?:good|great|nice), sounds good, got it, ok, okay, yes, yeah, yep, no, nope,
        sure, right, exactly, true, same, me too, i agree, totally, love it, so
        (?:cool|cute|nice|good|true|happy), good luck, keep it up, glad, happy for you
        """
    ),
    plans=_phrases(
        """
        will, i'll, we'll, going to, gonna, plan, plans, planning, planned, want to, wanna, hope to,
        hoping to, thinking of, thinking about, decided, decide, let's, should, need to, have to, must,
        would like, looking forward, agree, agreed, promise, schedule, scheduled, deadline, next
        (?:week|month|year), tomorrow, tonight, i'm
        (?:trying|working|starting|getting|making|learning|using), working on
        """
    ),
    events=_phrases(
        """
        just, finally, finished, started, got, bought, made, went, found, lost, won, met, joined, moved,
        quit, released, shipped, merged, deployed, fixed, broke, broken, failed, fails, error, bug,
        issue, problem, tried, working, works, worked, done, applied, signed up, learned, realized,
        yesterday, last (?:week|night|month|year|weekend), this (?:week|morning|weekend|year), been,
        since, because, turns out, result, results, pushed, added, changed, wrote, built, created,
        updated, version, offered, received, passed, sick, hurt
        """
    ),
    asks=_phrases(
        """
        can you, could you, would you, can i, could i, can we, should i, should we, please, how
        (?:do|does|did|can|could|would|should|about|come|many|much|long), what
        (?:do|does|did|is|are|was|were|kind|about|made|if|would|should), why, where, when, which, who,
        is there, are there, does anyone, has anyone, anyone, any
        (?:idea|ideas|tips|advice|suggestions), do you, did you, have you, are you, is it, need help
        """
    ),
)

SPANISH = Lexicon(
    function=_words(
        """
        el la los las un una unos unas y e o u de del al a en con por para sin sobre entre que se lo le
        les me te nos mi mis tu tus su sus es son era fue ser estar está están hay no sí si ya muy más
        pero como cuando porque yo él ella ellos ellas eso esto esa ese este esta estos estas aquello
        ahí allí qué quién cómo dónde hola gracias bueno vale pues ha he han hemos también todo todos
        voy va vamos hacer tengo tiene
        """
    ),
    things=_phrases("eso, esto, aquello, lo, ahí, allí, ese, esa, esos, esas"),
    people=_phrases("él, ella, ellos, ellas"),
    persons=_words(
        """
        madre padre hermano hermana hijo hija amigo amiga jefe jefa gente equipo familia perro gato
        """
    ),
    definite=_phrases("el, la, los, las, ese, esa, esos, esas, este, esta, aquel, aquella"),
    possessive=_phrases("mi, mis, tu, tus, su, sus, nuestro, nuestra"),
    known=_words(
        """
        día días semana mes año mañana tarde noche tiempo vez mundo casa vida cosa cosas gente verdad
        hora
        """
    ),
    empty=_words("cosa cosas bien mal bueno buena gran hoy ayer gracias"),
    recall=_phrases(
        """
        recuerdas, te acuerdas, me acuerdo, como acordamos, como dijimos, como quedamos, dijiste,
        dijimos, te dije, la última vez, hablamos de
        """
    ),
    repeats=_phrases(
        """
        otra vez, de nuevo, otro, otra, otros, otras, todavía, aún, sigue, sigo, en vez de, al final, ya
        no, por fin, finalmente
        """
    ),
    compares=_phrases("mismo, misma, también, ya, incluso, resulta que"),
    answers=_phrases("sí, si, no, vale, claro, exacto, de acuerdo, ok, perfecto, gracias, bueno"),
    connects=_phrases("pero, y, porque, entonces, así que, pues, o, además"),
    decides=_phrases("hagámoslo, vamos con (?:eso|esa|ese), lo hacemos, lo haré"),
    introduces=_phrases("se llama, llamado, llamada"),
    social=_phrases(
        """
        hola, buenos días, buenas tardes, buenas noches, gracias, adiós, jaja, jajaja, qué bien, genial,
        vale, sí, no, claro
        """
    ),
    plans=_phrases(
        """
        voy a, vamos a, quiero, queremos, tenemos que, tengo que, plan, planes, mañana, decidimos, hay
        que
        """
    ),
    events=_phrases(
        """
        ayer, terminé, empecé, compré, fui, hice, error, problema, resultado, falló, funciona, hoy
        """
    ),
    asks=_phrases("puedes, podrías, por favor, cómo, cuándo, dónde, por qué, quién, cuál, alguien"),
)

GERMAN = Lexicon(
    function=_words(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber von zu zum zur in im an
        am auf mit für ohne über unter bei nach vor aus um dass ob wenn als wie weil ich du er sie es
        wir ihr mich dich mir dir uns euch ihn ihm ihnen mein meine dein deine sein seine unser ist sind
        war waren bin hat haben habe hatte wird werden kann können muss nicht kein keine ja nein doch
        noch schon auch nur so sehr mehr dann da hier dort was wer wo wann warum hallo danke bitte gut
        mal
        """
    ),
    things=_phrases(
        """
        es, das, dies, dieses, diese, dieser, diesen, jenes, dort, davon, dazu, damit, darüber, dafür
        """
    ),
    people=_phrases("er, ihn, ihm, sie, ihnen"),
    persons=_words(
        """
        mutter vater bruder schwester sohn tochter freund freundin chef chefin kollege kollegin leute
        familie hund katze team
        """
    ),
    definite=_phrases("der, die, das, den, dem, des, diese, dieser, dieses, diesen"),
    possessive=_phrases(
        """
        mein, meine, meinen, meiner, dein, deine, deinen, deiner, unser, unsere, sein, seine, ihr, ihre
        """
    ),
    known=_words(
        """
        tag tage woche monat jahr morgen abend nacht zeit mal welt haus leben sache sachen leute uhr
        """
    ),
    empty=_words("sache sachen gut schlecht heute gestern morgen danke bitte"),
    recall=_phrases(
        """
        erinnerst du dich, wie besprochen, wie vereinbart, wie gesagt, du (?:sagtest|meintest), letztes
        mal, wie letzte woche
        """
    ),
    repeats=_phrases(
        """
        wieder, nochmal, noch einmal, immer noch, stattdessen, nicht mehr, trotzdem, weiterhin, endlich,
        bereits
        """
    ),
    compares=_phrases("noch, andere, anderen, anderer, anderes, dasselbe, doch, schon, sogar, inzwischen"),
    answers=_phrases("ja, nein, doch, genau, klar, okay, ok, stimmt, danke, gut, einverstanden"),
    connects=_phrases("aber, und, weil, also, dann, denn, oder, außerdem, deshalb"),
    decides=_phrases("machen wir (?:das|es), nehmen wir (?:das|die|den), dann so"),
    introduces=_phrases("heißt, namens, genannt"),
    social=_phrases(
        """
        hallo, guten morgen, guten tag, guten abend, gute nacht, danke, bitte, tschüss, haha, hahaha,
        super, toll, ja, nein, genau
        """
    ),
    plans=_phrases(
        """
        ich werde, wir werden, wollen, will, müssen, muss, plan, morgen, nächste woche, entschieden,
        sollten
        """
    ),
    events=_phrases(
        """
        gestern, heute, fertig, habe, fehler, problem, ergebnis, gekauft, gefunden, angefangen,
        funktioniert, läuft
        """
    ),
    asks=_phrases("kannst du, könntest du, bitte, wie, wann, wo, warum, wer, welche, jemand"),
)

JAPANESE = Lexicon(
    function=frozenset(),
    things=_phrases("それ, これ, あれ, そこ, あそこ"),
    people=_phrases("彼女, 彼ら, 彼"),
    definite=_phrases("その, あの, この, 例の"),
    recall=_phrases("この前, 先日, 前回, 覚えて, 言ってた, 言っていた, 先ほど, さっき"),
    repeats=_phrases("また, まだ, もう一度, 再度, やっぱり, 代わりに, ようやく, ついに"),
    compares=_phrases("同じ, 他の, 別の, もう"),
    answers=_phrases("はい, いいえ, うん, そうです, そうですね, なるほど, 了解, わかりました"),
    connects=_phrases("でも, だから, それで, じゃあ, しかし, なので"),
    decides=_phrases("それでいきましょう, そうしましょう, それにします"),
    social=_phrases(
        "こんにちは, おはよう, こんばんは, ありがとう, お疲れ, よろしく, 笑, なるほど, 了解, はい"
    ),
    plans=_phrases("予定, つもり, しましょう, します, 明日, 来週, 決め"),
    events=_phrases("昨日, 今日, 完了, 終わり, 問題, エラー, 失敗, 結果, しました"),
    asks=_phrases("ですか, ますか, お願い, ください, 誰, いつ, どこ, なぜ, どう"),
    spaced=False,
)

LEXICONS = (ENGLISH, SPANISH, GERMAN)
