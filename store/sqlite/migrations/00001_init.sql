-- The first schema. Times are integer microseconds since 1970 UTC; NULL stands for zero and empty values.

-- +goose Up

-- One row: the latest time by which any process has decided anything (S5.4).
CREATE TABLE clock (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  high INTEGER NOT NULL
);
INSERT INTO clock (id, high) VALUES (1, 0);

-- The installation's secret (S3.9).
CREATE TABLE secret (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  value BLOB NOT NULL
);

-- Versions of policies and contracts, by the digest of their bytes (S3.11).
CREATE TABLE documents (
  digest BLOB PRIMARY KEY,
  body   BLOB NOT NULL
);

-- Terms are the same for very many operations, which refer to them (S3.11).
CREATE TABLE terms (
  id     INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  body   TEXT NOT NULL
);

-- One row per operation. Rowids grow with creation. What an attempt's end changes is in no index except due_at, which is NULL
-- for whatever the machine need not look at.
CREATE TABLE operations (
  id               INTEGER PRIMARY KEY,
  key              BLOB NOT NULL,
  version          INTEGER NOT NULL,
  token            INTEGER NOT NULL,
  state            TEXT NOT NULL,
  due_at           INTEGER,
  tenant           TEXT NOT NULL,
  tool             TEXT NOT NULL,
  scope            TEXT NOT NULL,
  run              TEXT,
  step             TEXT,
  intent_id        TEXT NOT NULL,
  revision         INTEGER NOT NULL,
  supersedes       BLOB,
  supersede_reason TEXT,
  actor            TEXT,
  fingerprint      BLOB,
  request_scope    TEXT,
  resource         TEXT,
  twin             BLOB,
  twin_of          BLOB,
  terms            INTEGER NOT NULL REFERENCES terms (id),
  stamp            TEXT,
  created_at       INTEGER,

  hold             TEXT,
  reason           TEXT,
  owner            TEXT,
  downstream_key   TEXT,
  epoch            INTEGER NOT NULL,
  attempt          INTEGER NOT NULL,
  spent            INTEGER NOT NULL,
  open             INTEGER NOT NULL,
  exposed          INTEGER NOT NULL,
  parked           INTEGER NOT NULL,
  stored_error     INTEGER NOT NULL,
  looks            INTEGER NOT NULL,
  opened_at        INTEGER,
  started_at       INTEGER,
  first_sent_at    INTEGER,
  last_sent_at     INTEGER,
  taken_at         INTEGER,
  retry_at         INTEGER,
  settled_at       INTEGER,
  last_verdict     TEXT,
  proof            TEXT,
  reference        TEXT,
  alarm            TEXT,
  permission       TEXT,
  evidence         TEXT,
  failure          TEXT,
  result_digest    BLOB,
  result_omitted   TEXT,
  result           BLOB,

  -- same: 1 says that arguments are the bytes of business, 2 that request is; then they are not stored again.
  same             INTEGER NOT NULL,
  business         BLOB,
  arguments        BLOB,
  request          BLOB
);
-- The claim's durable unique constraint (S5.3).
CREATE UNIQUE INDEX operations_key ON operations (key);
-- Only what is not final is in this one, so that it stays small. It changes with each write, but always at its young end: without
-- it a claim and its record cost the same processor time and write 1 % less (8.7 of 8.8 kB).
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;
-- For people: what did not just succeed. (IN instead of OR would build a table for each write, a sixth of a claim's cost.)
CREATE INDEX operations_notable ON operations (state) WHERE state = 'review' OR state = 'failed' OR state = 'abandoned';
CREATE INDEX operations_alarm ON operations (alarm) WHERE alarm IS NOT NULL;
-- Only tools that ask for twin alerts pay for them (S3.8).
CREATE INDEX operations_twin ON operations (twin) WHERE twin IS NOT NULL;

-- Resources with a duplicate alarm: new operations on them are held (S7.1).
CREATE TABLE holds (
  operation INTEGER PRIMARY KEY REFERENCES operations (id),
  tenant    TEXT NOT NULL,
  resource  TEXT NOT NULL
);
CREATE INDEX holds_resource ON holds (resource);

-- The audit: one line for each transition (S5.1 I7), in the order of their commits.
CREATE TABLE events (
  id         INTEGER PRIMARY KEY,
  operation  INTEGER NOT NULL REFERENCES operations (id),
  seq        INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  from_state TEXT,
  to_state   TEXT NOT NULL,
  token      INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  sends      INTEGER NOT NULL,
  risk       INTEGER NOT NULL,
  line       INTEGER NOT NULL,
  actor      TEXT,
  verdict    TEXT,
  found      TEXT,
  resolution TEXT,
  reference  TEXT,
  reason     TEXT
);
CREATE UNIQUE INDEX events_operation ON events (operation, seq);

PRAGMA application_id = 0x45666f31;
PRAGMA user_version = 1;
