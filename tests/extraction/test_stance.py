"""Tests of stance: titles that contradict their quote are found, and titles that agree pass, in each language."""

from __future__ import annotations

import pytest

from memory_ci.extraction.clauses import find_language, load_tables
from memory_ci.extraction.injection import load_languages
from memory_ci.extraction.stance import is_opposite

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
        ("Prefer composition over inheritance", "prefer inheritance over composition"),
        ("Prefer threads to asyncio in workers", "in workers we prefer asyncio to threads"),
        ("Use threads in workers", "asyncio is preferred to threads in workers"),
        ("Write the code before the tests", "write the tests before the code"),
        ("First bump the version, then tag", "first tag, then bump the version"),
        ("Run migrations by hand in production", "nobody runs migrations by hand in production"),
        ("Cache responses of the billing API", "responses of the billing API can't be cached"),
        ("Commit generated files", "generated files are not allowed in commits"),
        ("Ask before deleting branches", "you don't need to ask before deleting branches"),
        ("Hand-edit files below gen/", "files below gen/ are generated, no hand edits please"),
        ("Keep secrets in the repository", "secrets don't belong in the repository"),
    ],
    "de": [
        ("Nutze immer npm", "nutze niemals npm"),
        ("Führe Migrationen nach dem Seed aus", "führe Migrationen vor dem Seed aus"),
        ("Aktiviere den Cache in der CI", "deaktiviere den Cache in der CI"),
        ("Logge die Kundennummer", "die Kundennummer darf nicht geloggt werden"),
        (
            "Baue die Dokumentation vor dem Release",
            "die Dokumentation wird nach dem Release gebaut",
        ),
        ("Verwende lieber REST als GraphQL", "verwende lieber GraphQL als REST"),
        (
            "Öffne Pull Requests gegen den Release-Branch",
            "niemand öffnet Pull Requests gegen den Release-Branch",
        ),
    ],
    "es": [
        ("Modifica siempre los commits publicados", "nunca modifiques los commits publicados"),
        ("Usa npm en vez de pnpm", "usa pnpm en vez de npm"),
        ("Ejecuta las pruebas después de subir", "ejecuta las pruebas antes de subir"),
        ("Primero publica, luego escribe las notas", "primero escribe las notas, luego publica"),
        (
            "Importa el paquete interno en los plugins",
            "los plugins no deben importar el paquete interno",
        ),
    ],
    "pt": [
        ("Altere sempre commits publicados", "nunca altere commits publicados"),
        ("Rode os testes depois do deploy", "rode os testes antes do deploy"),
        ("Remova o cache do build", "adicione o cache ao build"),
        (
            "Primeiro publique, depois escreva as notas",
            "primeiro escreva as notas, depois publique",
        ),
        ("Execute migrações na mão", "ninguém executa migrações na mão"),
    ],
    "fr": [
        ("Modifie toujours les commits publiés", "ne modifie jamais les commits publiés"),
        ("Active le cache en CI", "désactive le cache en CI"),
        ("Lance les tests après le push", "lance les tests avant le push"),
        ("Utilise npm au lieu de pnpm", "utilise pnpm au lieu de npm"),
        ("Valide sans lancer les tests", "ne valide jamais sans lancer les tests"),
        ("Préfère l'héritage à la composition", "préfère la composition à l'héritage"),
        ("D'abord fusionner, puis lancer les tests", "d'abord lancer les tests, puis fusionner"),
    ],
    "ru": [
        ("Всегда изменяй опубликованные коммиты", "никогда не изменяй опубликованные коммиты"),
        ("Запускай тесты после отправки", "запускай тесты перед отправкой"),
        ("Используй npm вместо pnpm", "используй pnpm вместо npm"),
        ("Сначала выпуск, потом заметки", "сначала заметки, потом выпуск"),
    ],
    "zh": [
        ("总是修改已推送的提交", "不要修改已推送的提交"),
        ("提交之后运行测试", "提交之前运行测试"),
        ("启用构建缓存", "禁用构建缓存"),
        ("先部署再更新文档", "先更新文档再部署"),
        ("在测试中访问网络", "测试中不允许访问网络"),
        ("先合并再运行测试", "合并之前先运行测试"),
    ],
    "ja": [
        ("公開済みのコミットを必ず修正する", "公開済みのコミットを修正しないでください"),
        ("コミットの後にテストを実行する", "コミットの前にテストを実行する"),
        ("pnpmではなくnpmを使う", "npmではなくpnpmを使ってください"),
        ("キャッシュを有効にする", "キャッシュを無効にする"),
        ("デプロイの前にドキュメントを更新する", "ドキュメントの更新はデプロイの後にしてください"),
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
        ("Prefer composition to inheritance", "prefer composition over inheritance"),
        ("Write the tests before the code", "never write the code before the tests"),
        ("Tag before you bump the version", "first tag, then bump the version"),
        ("Never cache billing responses", "responses of the billing API can't be cached"),
        ("Secrets stay out of the repository", "secrets don't belong in the repository"),
        ("Leave the cache enabled", "don't disable the cache"),
        ("Use asyncio in workers", "in workers we prefer to use asyncio"),
        ("Retry at most three times", "no more than three retries"),
        (
            "Branches may be deleted without asking",
            "you don't need to ask before deleting branches",
        ),
        ("Run the unit tests first", "First, small commits. Run the unit tests"),
    ],
    "de": [
        ("Nutze niemals npm", "nutze bitte nie npm"),
        (
            "Führe die Tests vor jedem Commit aus",
            "vergiss nicht, die Tests vor jedem Commit auszuführen",
        ),
        ("Nutze pnpm statt npm", "nutze nie npm, nutze pnpm"),
        ("Kundennummern nie loggen", "die Kundennummer darf nicht geloggt werden"),
        ("Nimm GraphQL", "verwende lieber GraphQL als REST"),
    ],
    "es": [
        ("Nunca modifiques commits publicados", "no modifiques los commits publicados"),
        ("Ejecuta las pruebas antes de subir", "no olvides ejecutar las pruebas antes de subir"),
        ("Usa pnpm", "usa pnpm en vez de npm"),
        ("Conserva las ramas fusionadas", "no borres las ramas fusionadas"),
        ("Escribe las notas antes de publicar", "primero escribe las notas, luego publica"),
    ],
    "pt": [
        ("Nunca altere commits publicados", "não altere os commits publicados"),
        ("Rode os testes antes do deploy", "antes do deploy, rode os testes"),
        ("Use pnpm no projeto", "use pnpm em vez de npm no projeto"),
        ("Escreva as notas antes de publicar", "primeiro escreva as notas, depois publique"),
    ],
    "fr": [
        ("Ne modifie jamais les commits publiés", "évite de modifier les commits publiés"),
        ("Lance les tests avant le push", "n'oublie pas de lancer les tests avant le push"),
        ("Utilise pnpm", "utilise pnpm au lieu de npm"),
        ("Laisse le cache actif en production", "ne désactive pas le cache en production"),
        ("Écris les tests avant le code", "n'écris pas le code avant les tests"),
        ("Lance les tests avant de fusionner", "d'abord lancer les tests, puis fusionner"),
    ],
    "ru": [
        ("Никогда не изменяй опубликованные коммиты", "не изменяй опубликованные коммиты"),
        ("Запускай тесты перед отправкой", "не забудь: запускай тесты перед отправкой"),
        ("Используй pnpm", "используй pnpm вместо npm"),
        ("Заметки до выпуска", "сначала заметки, потом выпуск"),
    ],
    "zh": [
        ("不要修改已推送的提交", "请勿修改已推送的提交"),
        ("提交之前运行测试", "别忘了提交之前运行测试"),
        ("禁用构建缓存", "不要启用构建缓存"),
        ("使用 pnpm 安装依赖", "禁止使用 npm 安装依赖，请用 pnpm"),
        ("部署之前更新文档", "先更新文档再部署"),
        ("测试不得访问网络", "测试中不允许访问网络"),
    ],
    "ja": [
        ("公開済みのコミットを修正しない", "公開済みのコミットを修正しないでください"),
        ("コミットの前にテストを実行する", "コミットの前に必ずテストを実行してください"),
        ("キャッシュを無効にする", "キャッシュを有効にしないでください"),
        ("古いブランチを残す", "古いブランチは削除しないで"),
        ("デプロイの後にドキュメントを更新する", "ドキュメントの更新はデプロイの後にしてください"),
    ],
}


def list_pairs(table: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str, str]]:
    return [(language, title, quote) for language, pairs in table.items() for title, quote in pairs]


def test_there_are_thirty_pairs_each_way_from_every_language() -> None:
    assert {"en", *load_languages()} == {*load_tables()} == {*OPPOSITE} == {*AGREEING}
    assert min(len(list_pairs(OPPOSITE)), len(list_pairs(AGREEING))) >= 30


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(OPPOSITE))
def test_a_title_that_contradicts_its_quote_is_found(language: str, title: str, quote: str) -> None:
    assert is_opposite(title, [quote])


@pytest.mark.parametrize(("language", "title", "quote"), list_pairs(OPPOSITE))
def test_contradiction_is_symmetric(language: str, title: str, quote: str) -> None:
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
def test_the_language_of_a_text_is_found_by_its_function_words(text: str, language: str) -> None:
    assert find_language(text) == language


def test_a_long_text_is_read_in_linear_time() -> None:
    assert not is_opposite("Use npm", ["never use pnpm before " * 100_000])
