-- The index of memory-ci: everything in it is derived from the memory and episode files of one tree.
--
-- Changing anything here, the fields of records.entry.Entry, or what rows.hidden_parts gives, means raising
-- SCHEMA_VERSION in database.py: an index of another version is thrown away and built again, never migrated. Verdicts of another
-- way of judging anchors have other keys (memory/cites, JUDGES).
--
-- Versions
--   1  first version: one lexical lane
--   2  columns for every filter; parts of identifiers are computed, not stored, and only those that the tokenizer does
--      not find itself; a digest of each file's rows; hashes of texts; vectors
--   3  feedback, from the episode files
--   4  a job is told by `r:` and its ref or by `b:`, who and when, so that one is never taken for the other
--   5  occurrences of entries; a phase that is unknown is none
--   6  what an entry's text hashes to, so that a file that changed is not read whole
--   7  verdicts on cited code
--   8  the words of what is cited, and of aka; pairs of letters of scripts without blanks
--   9  checks of entries and their level; front matter without the keys that have their default

-- "mciX" at bytes 68 to 71 of the file: a file without it is somebody else's.
PRAGMA application_id = 1835231576;

-- What this database is. Rows: 'schema' (the version above) and 'tokenizer' (that of entries_fts).
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row for each memory or episode file that was read, entries or not, so that a tree without changes is not read
-- again.
CREATE TABLE files (
    path        TEXT PRIMARY KEY,  -- in the repository, or as configured for a file outside it
    oid         TEXT NOT NULL,     -- git's object id of the text that was read; '' means: read it every time
    scope       TEXT NOT NULL,     -- global, institutional, project, session or team; of an episode file project
    scope_where TEXT NOT NULL,     -- directory (team) or job (session), '' otherwise
    prose       BLOB NOT NULL,     -- LoadedFile.prose as MessagePack
    findings    BLOB NOT NULL,     -- LoadedFile.findings as MessagePack
    digest      BLOB NOT NULL      -- rows.digest of the columns above and of the file's rows in entries and feedback
) WITHOUT ROWID;

-- One row for each entry, also when its id stands in two places. Columns that only filter come first: SQLite then
-- need not read past a long body to reach them. Dates are ISO 8601 days; a field that is not said is NULL.
CREATE TABLE entries (
    row             INTEGER PRIMARY KEY,  -- in a fresh build the place in order of path and line; else of this file only
    id              TEXT NOT NULL,
    path            TEXT NOT NULL,        -- files.path
    line            INTEGER NOT NULL,     -- 1-based, of the opening ---
    scope           TEXT NOT NULL,        -- that of the file, or for an inbox fragment the one that it names
    scope_where     TEXT NOT NULL,
    type            TEXT NOT NULL,        -- declarative, procedural, directive or corrective
    domain          TEXT NOT NULL,        -- task or team
    status          TEXT NOT NULL,        -- active, retired or compacted
    phase           TEXT,                 -- the project's stage when the entry was written
    session         TEXT,                 -- the agent's run that it comes from (the job it is bound to: scope_where)
    last_reinforced TEXT NOT NULL,
    created_at      TEXT,
    occurred_at     TEXT,
    valid_until     TEXT,                 -- first day on which it no longer holds
    text_hash       BLOB NOT NULL,        -- BLAKE2b, 16 bytes, of title, newline and body: what vectors are joined by
    front           BLOB NOT NULL,        -- the other fields of Entry in its order, a MessagePack array: JSON has no NaN
    title           TEXT NOT NULL,
    body            TEXT NOT NULL,
    source          BLOB,                 -- LoadedFile.sources: by it an entry is known when its file is read again
    digest          BLOB NOT NULL         -- rows.entry_digest of the columns above, without the line
);
CREATE INDEX entries_by_path ON entries (path);

-- What episode files say of entries: one row each time that it is said, the same event twice if two files say so. The
-- entry need not be there. What an entry is worth is replayed from these rows at each reading and stands nowhere.
CREATE TABLE feedback (
    path  TEXT NOT NULL,     -- files.path, an episode file
    place INTEGER NOT NULL,  -- of the row among those of its file, from 0
    line  INTEGER NOT NULL,  -- 1-based, of the opening --- of the episode or amendment that says so
    entry TEXT NOT NULL,     -- entries.id
    kind  TEXT NOT NULL,     -- confirmed, corrected, rejected, undone or ignored
    at    TEXT NOT NULL,     -- ISO 8601 with the offset +00:00
    by    TEXT NOT NULL,     -- who says so, '' if that is not said
    ref   TEXT NOT NULL,     -- the work that it is about (pr:128), '' for none
    job   TEXT NOT NULL,     -- what those that were ignored together have in common: `r:` and ref, else `b:`, `by` and `at`
    PRIMARY KEY (entry, path, place)  -- what was said of one entry is asked for together
) WITHOUT ROWID;
CREATE INDEX feedback_by_path ON feedback (path);
CREATE INDEX feedback_by_job ON feedback (job, entry) WHERE kind = 'ignored';

-- What the lexical lane reads. hidden_parts() and cited() are given to each connection by database.py.
CREATE VIEW entries_text AS
SELECT row, title, body, hidden_parts(title, body) AS parts, cited(front) AS cited FROM entries;

-- The lexical lane. Only these four columns are searched: an id, or the path of a memory file, never matches. It holds no text of its own
-- (content=): whoever deletes a row of entries first hands the old text to the 'delete' command.
CREATE VIRTUAL TABLE entries_fts USING fts5 (
    title,
    body,
    parts,                                -- getUserName -> get user name; http_client is two words anyway; pairs of letters
    cited,                                -- the words of the paths and names that it cites, and aka
    content = 'entries_text',
    content_rowid = 'row',
    detail = full,
    tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Bytes of new words that are held in memory before they are written: one segment for tens of thousands of entries
-- instead of one for each thousand, which are then merged again and again.
INSERT INTO entries_fts (entries_fts, rank) VALUES ('hashsize', 16777216);

-- The vector lane's cache, one row for each embedding model.
CREATE TABLE vectors (
    model_id TEXT PRIMARY KEY,
    dim      INTEGER NOT NULL,  -- numbers in one vector
    hashes   BLOB NOT NULL,     -- entries.text_hash, 16 bytes each, ascending, each once
    data     BLOB NOT NULL      -- the vectors in the same order, float32, little-endian
) WITHOUT ROWID;

-- What became of cited code, so that it is not compared again. Not derived from the memory files: it stays behind when an
-- index is written to a file, and is forgotten when the file is not as we left it.
CREATE TABLE verdicts (
    row     INTEGER PRIMARY KEY,   -- the oldest go first
    key     TEXT NOT NULL UNIQUE,  -- a digest of all that the outcome follows from (memory/cites)
    outcome TEXT NOT NULL          -- JSON: the verdict, and what other files are searched for ('' for nothing)
);
