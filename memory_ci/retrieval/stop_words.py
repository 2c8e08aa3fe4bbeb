"""Stop words of languages other than English: measured, they keep a question from being answered by its small words."""

from __future__ import annotations

from collections.abc import Set

from memory_ci.text import STOP_WORDS

OTHERS = tuple(
    frozenset(table.split())
    for table in (
        """aber als am an auch auf aus bei bin bis das dass dem den der des die dies diese doch du durch ein eine einem
        einen einer eines er es für hat ich ihr im in ist kann können man mit muss nach nicht noch nur oder
        sein sich sie sind so über um und uns vom von vor wann warum was weil wenn wer werden wie wir wird
        wo woher wohin wozu zu zum zur""",
        """a al como con cuál cual cuando cuándo cuánto cómo de del desde donde dónde el ella en es esta este esto ha
        hay la las lo los más muy ni no o para pero por porque puedo que qué quién se ser si sin sobre son
        su sus también un una unas uno y ya""",
        """au aux avec ce ces cette comment dans de des du elle en est et faut il ils je la le les leur mais ne nous on
        ou où par pas peut plus pour pourquoi puis quand que quel quelle qui quoi sa se ses si son sont sur
        un une vous à""",
        """a ao aos as com como da das de do dos e ela ele em eu isso já mais mas na nas no nos não o onde os ou para
        pela pelo por porque posso quais qual quando quanto que quem se sem ser seu sua são também um uma à
        às é""",
        """а без был в во все вы где да для до его если есть же за зачем и из или как какая какой ко когда кто ли можно
        мы на над не но о об он она они от по под почему при с со так также то только у что чтобы это я""",
    )
)
"""German, Spanish, French, Portuguese, Russian."""


def choose_stop_words(asked: Set[str]) -> frozenset[str]:
    """The English ones, and those of another language of which a task says two and more than of English: `die` and
    `bin` mean something there."""
    best = max(OTHERS, key=lambda table: len(table & asked))
    return STOP_WORDS | best if len(best & asked) > max(1, len(STOP_WORDS & asked)) else STOP_WORDS
