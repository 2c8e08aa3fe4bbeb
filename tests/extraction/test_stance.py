"""Titles that say the opposite of a quote, and titles that agree with it, in each language of the tables."""

from __future__ import annotations

import pytest

from memory_ci.extraction.injection import load_languages
from memory_ci.extraction.stance import find_language, is_opposite, load_tables

OPPOSITE: dict[str, list[tuple[str, str]]] = {
    "en": [
        ("Always amend pushed commits", "never amend commits that were pushed"),
        ("Always amend pushed commits before a review", "never amend commits that were pushed"),
        (
            "Always amend pushed commits",
            "never amend commits that were pushed, people amend local ones",
        ),
        ("Run migrations after the seed", "run migrations before the seed"),
        (
            "Seed the database before you run migrations",
            "before you seed the database, run migrations",
        ),
        ("Enable the cache in CI", "disable the cache in CI"),
        ("Use npm instead of pnpm", "use pnpm instead of npm"),
        ("Avoid the shared client", "always use the shared client"),
        ("Add a changelog entry to each request", "remove the changelog entry from each request"),
        ("Commit without running the tests", "never commit without running the tests"),
        ("Skip the slow tests in CI", "make sure to run the slow tests in CI"),
        ("Never squash the commits of a branch", "please squash all commits of the branch"),
    ],
    "de": [
        ("Nutze immer npm", "nutze niemals npm"),
        ("Führe Migrationen nach dem Seed aus", "führe Migrationen vor dem Seed aus"),
        ("Aktiviere den Cache in der CI", "deaktiviere den Cache in der CI"),
    ],
    "es": [
        ("Modifica siempre los commits publicados", "nunca modifiques los commits publicados"),
        ("Usa npm en vez de pnpm", "usa pnpm en vez de npm"),
        ("Ejecuta las pruebas después de subir", "ejecuta las pruebas antes de subir"),
    ],
    "pt": [
        ("Altere sempre commits publicados", "nunca altere commits publicados"),
        ("Rode os testes depois do deploy", "rode os testes antes do deploy"),
        ("Remova o cache do build", "adicione o cache ao build"),
    ],
    "fr": [
        ("Modifie toujours les commits publiés", "ne modifie jamais les commits publiés"),
        ("Active le cache en CI", "désactive le cache en CI"),
        ("Lance les tests après le push", "lance les tests avant le push"),
        ("Utilise npm au lieu de pnpm", "utilise pnpm au lieu de npm"),
        ("Valide sans lancer les tests", "ne valide jamais sans lancer les tests"),
    ],
    "ru": [
        ("Всегда изменяй опубликованные коммиты", "никогда не изменяй опубликованные коммиты"),
        ("Запускай тесты после отправки", "запускай тесты перед отправкой"),
        ("Используй npm вместо pnpm", "используй pnpm вместо npm"),
    ],
    "zh": [
        ("总是修改已推送的提交", "不要修改已推送的提交"),
        ("提交之后运行测试", "提交之前运行测试"),
        ("启用构建缓存", "禁用构建缓存"),
    ],
    "ja": [
        ("公開済みのコミットを必ず修正する", "公開済みのコミットを修正しないでください"),
        ("コミットの後にテストを実行する", "コミットの前にテストを実行する"),
        ("pnpmではなくnpmを使う", "npmではなくpnpmを使ってください"),
        ("キャッシュを有効にする", "キャッシュを無効にする"),
    ],
}
AGREEING: dict[str, list[tuple[str, str]]] = {
    "en": [
        ("Never amend pushed commits", "please don't amend commits that were pushed"),
        ("Run migrations before the seed", "run migrations before the seed"),
        ("Run migrations before the seed", "before the seed, run migrations"),
        ("Never enable the cache in CI", "disable the cache in CI"),
        ("Use pnpm, not npm", "use pnpm instead of npm"),
        ("Never use npm", "use pnpm instead of npm"),
        ("Use the shared client", "avoid a client of your own, always use the shared client"),
        ("Run the tests before each commit", "never commit without running the tests"),
        ("Run the slow tests in CI", "never skip the slow tests in CI"),
        ("Retry only idempotent requests", "never retry requests that are not idempotent"),
        ("Never retry a POST", "the client retries a POST, customers are charged twice"),
        ("Merge when the tests pass", "don't merge when the tests fail"),
    ],
    "de": [
        ("Nutze niemals npm", "nutze bitte nie npm"),
        (
            "Führe die Tests vor jedem Commit aus",
            "vergiss nicht, die Tests vor jedem Commit auszuführen",
        ),
        ("Nutze pnpm statt npm", "nutze nie npm, nutze pnpm"),
    ],
    "es": [
        ("Nunca modifiques commits publicados", "no modifiques los commits publicados"),
        ("Ejecuta las pruebas antes de subir", "no olvides ejecutar las pruebas antes de subir"),
        ("Usa pnpm", "usa pnpm en vez de npm"),
    ],
    "pt": [
        ("Nunca altere commits publicados", "não altere os commits publicados"),
        ("Rode os testes antes do deploy", "antes do deploy, rode os testes"),
        ("Use pnpm no projeto", "use pnpm em vez de npm no projeto"),
    ],
    "fr": [
        ("Ne modifie jamais les commits publiés", "évite de modifier les commits publiés"),
        ("Lance les tests avant le push", "n'oublie pas de lancer les tests avant le push"),
        ("Utilise pnpm", "utilise pnpm au lieu de npm"),
    ],
    "ru": [
        ("Никогда не изменяй опубликованные коммиты", "не изменяй опубликованные коммиты"),
        ("Запускай тесты перед отправкой", "не забудь: запускай тесты перед отправкой"),
        ("Используй pnpm", "используй pnpm вместо npm"),
    ],
    "zh": [
        ("不要修改已推送的提交", "请勿修改已推送的提交"),
        ("提交之前运行测试", "别忘了提交之前运行测试"),
        ("禁用构建缓存", "不要启用构建缓存"),
    ],
    "ja": [
        ("公開済みのコミットを修正しない", "公開済みのコミットを修正しないでください"),
        ("コミットの前にテストを実行する", "コミットの前に必ずテストを実行してください"),
        ("キャッシュを無効にする", "キャッシュを有効にしないでください"),
    ],
}


def list_pairs(table: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str, str]]:
    return [(language, title, quote) for language, pairs in table.items() for title, quote in pairs]


def test_there_are_thirty_pairs_each_way_from_every_language() -> None:
    assert {"en", *load_languages()} == {*load_tables()} == {*OPPOSITE} == {*AGREEING}
    assert min(len(list_pairs(OPPOSITE)), len(list_pairs(AGREEING))) >= 30


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(OPPOSITE))
def test_a_title_that_says_the_opposite_of_its_quote_is_found(
    language: str, title: str, quote: str
) -> None:
    assert is_opposite(title, [quote])


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(OPPOSITE))
def test_what_a_title_opposes_it_also_opposes_the_other_way_round(
    language: str, title: str, quote: str
) -> None:
    assert is_opposite(quote, [title])


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(AGREEING))
def test_a_title_that_agrees_with_its_quote_passes(language: str, title: str, quote: str) -> None:
    assert not is_opposite(title, [quote])


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(AGREEING))
def test_a_sentence_agrees_with_itself(language: str, title: str, quote: str) -> None:
    assert not is_opposite(quote, [quote])
    assert not is_opposite(title, [title])


def test_a_sentence_that_agrees_outweighs_one_that_opposes() -> None:
    quotes = ["use the pool in tests", "don't use the pool in tests"]
    assert not is_opposite("Use the pool in tests", quotes)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Rode os testes no módulo", "pt"),
        ("use npm in this repo", "en"),
        ("提交之前运行测试", "zh"),
        ("コミットの前に", "ja"),
    ],
)
def test_the_language_of_a_text_is_that_of_its_small_words(text: str, language: str) -> None:
    assert find_language(text) == language


def test_a_long_text_is_read_in_bounded_time() -> None:
    assert not is_opposite("Use npm", ["never use pnpm before " * 100_000])
