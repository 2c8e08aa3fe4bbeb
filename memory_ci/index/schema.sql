-- The index of memory-ci: everything in it is derived from the memory files of one tree.
--
-- Changing anything here, or what text.identifier_parts gives, means raising SCHEMA_VERSION in key.py: an index of
-- another version is thrown away and built again, never migrated.
--
-- Versions
--   1  first version: one lexical lane

-- "mciX" at bytes 68 to 71 of the file: a file without it is somebody else's.
PRAGMA application_id = 1835231576;

-- What this database is. Rows: 'schema' (the version above) and 'tokenizer' (that of entries_fts).
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row for each memory file that was read, entries or not, so that a tree without changes is not read again.
CREATE TABLE files (
    path        TEXT PRIMARY KEY,  -- in the repository, or absolute for a file outside it
    oid         TEXT NOT NULL,     -- git's object id of the text that was read; '' means: read it every time
    scope       TEXT NOT NULL,     -- global, institutional, project, session or team
    scope_where TEXT NOT NULL,     -- directory (team) or job (session), '' otherwise
    prose       BLOB NOT NULL,     -- LoadedFile.prose as MessagePack
    findings    BLOB NOT NULL      -- LoadedFile.findings as MessagePack
) WITHOUT ROWID;

-- One row for each entry, also when its id stands in two places. Columns that only filter come first: SQLite then
-- need not read past a long body to reach them.
CREATE TABLE entries (
    row         INTEGER PRIMARY KEY,  -- of this database only; it says nothing about order
    id          TEXT NOT NULL,
    path        TEXT NOT NULL,        -- files.path
    line        INTEGER NOT NULL,     -- 1-based, of the opening ---
    scope       TEXT NOT NULL,        -- that of the file, or for an inbox fragment the one that it names
    scope_where TEXT NOT NULL,
    type        TEXT NOT NULL,        -- declarative, procedural, directive or corrective
    status      TEXT NOT NULL,        -- active, retired or compacted
    front       BLOB NOT NULL,        -- the Entry with empty title and body, as MessagePack: JSON has no NaN
    title       TEXT NOT NULL,
    body        TEXT NOT NULL,
    parts       TEXT NOT NULL         -- parts of the identifiers in title and body: getUserName -> get user name
);
CREATE INDEX entries_by_path ON entries (path, line);

-- The lexical lane. Only these three columns are searched: an id or a path never matches. It holds no text of its own
-- (content=): whoever deletes a row of entries first hands the old text to the 'delete' command.
CREATE VIRTUAL TABLE entries_fts USING fts5 (
    title,
    body,
    parts,
    content = 'entries',
    content_rowid = 'row',
    detail = full,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
