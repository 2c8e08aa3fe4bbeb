"""SQL statements on the tables of the organisation's index on PostgreSQL."""

from __future__ import annotations

TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
ADD_REPOSITORY = """
INSERT INTO memory_org.repositories VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, link = excluded.link, head = excluded.head, entries = excluded.entries
"""
REMOVE_REPOSITORY = "DELETE FROM memory_org.repositories WHERE id = %s"
ROWS_OF_REPOSITORY = """
SELECT row, line, NULL, digest FROM memory_org.entries WHERE repository = %s ORDER BY row
"""
MOVE_ENTRY = "UPDATE memory_org.entries SET line = %s WHERE row = %s"
ADD_ENTRIES = """
COPY memory_org.entries (
    repository, id, path, line, type, domain, status, phase, valid_until,
    digest, record, size, stems, words
) FROM STDIN
"""
ADD_WORDS = """
INSERT INTO memory_org.words SELECT * FROM unnest(%s::text[], %s::integer[])
ON CONFLICT (word) DO UPDATE SET entries = memory_org.words.entries + excluded.entries
"""
ADD_TOTALS = "UPDATE memory_org.totals SET entries = entries + %s, words = words + %s"
REMOVE_ENTRIES = """
WITH gone AS (DELETE FROM memory_org.entries WHERE row = ANY(%s) RETURNING words, size),
less AS (UPDATE memory_org.totals SET entries = entries - (SELECT count(*) FROM gone),
         words = words - (SELECT coalesce(sum(size), 0) FROM gone)),
held AS (SELECT lexeme, count(*) AS entries FROM gone, unnest(gone.words) GROUP BY lexeme)
UPDATE memory_org.words SET entries = memory_org.words.entries - held.entries
FROM held WHERE word = held.lexeme
"""
ADD_AUDIENCE = "INSERT INTO memory_org.audiences VALUES (%s) ON CONFLICT DO NOTHING"
LIST_AUDIENCES = "SELECT audience FROM memory_org.audiences ORDER BY audience"
LIST_HEADS = "SELECT id, name, link, head, entries FROM memory_org.repositories"
ENTRY_RECORDS = "SELECT record FROM memory_org.entries WHERE repository = %s"
COUNT_ENTRIES_AND_WORDS = """
SELECT entries, words,
    (SELECT json_object_agg(word, entries)::text FROM memory_org.words WHERE word = ANY(%s))
FROM memory_org.totals
"""
COUNT_ENTRIES_WITH_PATTERN = """
SELECT count(*) FROM memory_org.entries WHERE words @@ %s::tsquery AND position(%s in stems) > 0
"""
CANDIDATES = """
SELECT e.row, e.id, e.path, e.line, e.size, e.stems FROM memory_org.entries AS e
WHERE e.words @@ %(words)s::tsquery AND e.status = ANY(%(statuses)s)
AND (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
AND (%(domains)s::text[] IS NULL OR e.domain = ANY(%(domains)s))
AND (%(phases)s::text[] IS NULL OR e.phase = ANY(%(phases)s))
AND (%(today)s::text IS NULL OR e.valid_until IS NULL OR e.valid_until > %(today)s)
AND NOT e.repository = ANY(ARRAY(SELECT id FROM memory_org.repositories
                                 WHERE id = ANY(%(excluded_ids)s)
                                 OR lower(link) = ANY(%(excluded_links)s)))
"""
MATCHES = """
SELECT e.row, e.record, r.id, r.name, r.link, r.head FROM memory_org.entries AS e
JOIN memory_org.repositories AS r ON r.id = e.repository WHERE e.row = ANY(%s)
"""
DATABASE_SIZE = "SELECT pg_database_size(current_database())"
OPERATOR_STATE = "SELECT data FROM memory_org.state"
SET_TIMEOUT = "SELECT set_config('statement_timeout', %s, true)"
