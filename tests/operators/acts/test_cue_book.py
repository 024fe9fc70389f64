from __future__ import annotations

from pathlib import Path

import pytest

from backscroll.operators.acts.cue_book import FOLDER, CueBook, cue_books
from backscroll.operators.language.language_files import LanguageFileError, read_languages

# Sentences as `reading` passes them on, with families that must be found and some that must not.
SENTENCES = {
    "en": [
        ("i'll send the minutes tomorrow.", "commits times", "requests decides"),
        ("i will write the notes", "commits", "offers intends"),
        ("i'll never understand cricket", "", "commits"),
        ("let me know.", "informs", "commits"),
        ("can you review the patch, please?", "requests whether you", "commits"),
        ("NAME, send them the archive", "commands", "commits"),
        ("let's move the demo to monday.", "proposes times", "decides"),
        ("we decided to drop the old parser.", "decides drops", "proposes"),
        ("okay, then we go with the second one.", "accepts concludes keeps", "requests"),
        ("on it.", "offers", "requests"),
        ("i might write it some day", "hedges", "offers decides"),
        ("lgtm, ship it", "approves", "thanks"),
        ("the upload is done.", "done", "commits"),
        ("the build failed because the disk was full", "news findings past", "offers"),
        ("thanks a lot!", "thanks social", "decides"),
        ("hahaha lol", "laughs", "decides"),
        ("where does the replica run?", "who", "requests"),
        ("does anyone know a good dentist?", "whether anyone", "commits"),
        ("how are you?", "phatic who", "wonders"),
        ("see you later", "leaves times", "commits"),
        ("the harbour lies in the fog.", "", "commits requests decides proposes thanks done asks"),
    ],
    "de": [
        ("ich schicke das protokoll morgen.", "commits times", "requests decides"),
        ("mach ich.", "offers", "requests"),
        ("kannst du bitte den vertrag prüfen?", "requests whether you", "offers"),
        ("lasst uns am montag proben.", "proposes times", "decides"),
        ("dann ist es entschieden: wir nehmen die halle.", "decides keeps concludes", "requests"),
        ("das konzert fällt aus.", "drops", "commits"),
        ("passt für mich.", "approves accepts", "requests"),
        ("die rechnung ist erledigt.", "done", "commits"),
        ("vielen dank!", "thanks", "decides"),
        ("weiß jemand, wo der schlüssel ist?", "wonders whether anyone", "commits"),
        ("wer bringt das metronom mit?", "who", "decides"),
        ("irgendwann mal, vielleicht.", "hedges", "commits"),
        ("der hafen liegt still im nebel.", "", "commits requests decides proposes thanks done"),
    ],
    "es": [
        ("yo llamo al pintor mañana.", "commits times", "requests decides"),
        ("me encargo de la llave.", "offers", "decides"),
        ("¿puedes revisar el contrato, por favor?", "requests whether", "commits"),
        ("¿qué tal si pintamos el lunes?", "proposes times", "decides"),
        ("hemos decidido cancelar la visita.", "decides", "offers"),
        ("vale, entonces nos quedamos con la sala", "accepts concludes keeps", "requests"),
        ("me parece bien.", "approves", "requests"),
        ("ya está, enviado.", "done", "requests"),
        ("muchas gracias", "thanks", "decides"),
        ("¿quién trae las sillas?", "who", "offers whether"),
        ("¿con quién vas?", "who", "whether"),
        ("jajaja", "laughs", "commits"),
        ("el puerto duerme bajo la niebla.", "", "commits requests decides proposes thanks done"),
    ],
    "ja": [
        ("明日までに議事録を送ります。", "commits times", "requests decides"),
        ("任せてください。", "offers", "decides"),
        ("確認をお願いします。", "requests", "commits"),
        ("来週から始めましょう。", "proposes times", "decides"),
        ("公開日はNUM月NUM日に決まりました。", "decides", "requests"),
        ("賛成です。", "approves", "requests"),
        ("資料は更新しました。", "done", "requests"),
        ("ありがとうございます。", "thanks social", "decides"),
        ("鍵はどこにありますか?", "who whether", "commits"),
        ("会議は延期になりました。", "drops", "commits"),
        ("港はとても静か。", "", "commits requests decides proposes thanks done"),
    ],
}
ROWS = [(code, *row) for code, rows in SENTENCES.items() for row in rows]


def test_there_is_a_book_for_each_packaged_language() -> None:
    assert set(cue_books()) == set(SENTENCES) == {path.stem for path in FOLDER.glob("*.toml")}


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_every_book_has_the_families_that_acts_are_built_from(code: str) -> None:
    needed = "commits offers requests proposes decides approves accepts done thanks who whether times"
    assert set(needed.split()) <= set(cue_books()[code].families)


@pytest.mark.parametrize(("code", "sentence", "found", "not_found"), ROWS)
def test_typical_sentences_have_their_cues(code: str, sentence: str, found: str, not_found: str) -> None:
    cues = cue_books()[code].found(sentence)
    assert set(found.split()) - cues == set()
    assert set(not_found.split()) & cues == set()


def test_cues_are_whole_words_where_words_are_separated() -> None:
    book = CueBook("xx", verbs=("send", "file"), commits=("will {verb}",), done=("sent",))
    assert book.found("i will send it") == {"commits"}
    assert book.found("i will sender") == set()
    assert book.found("a sentence") == set()
    assert CueBook("xx", done=("sent",), spaced=False).found("a sentence") == {"done"}


def test_verbs_are_no_family_and_a_book_without_verbs_matches_none() -> None:
    assert set(CueBook("xx", verbs=("send",), done=("sent",)).families) == {"done"}
    assert CueBook("xx", commits=("will {verb}",)).found("i will {verb} send") == set()


def test_a_family_that_no_book_knows_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "xx.toml").write_text('promises = ["will"]\n')
    with pytest.raises(LanguageFileError, match=r"xx\.toml: unknown key 'promises'"):
        read_languages(tmp_path, CueBook)
