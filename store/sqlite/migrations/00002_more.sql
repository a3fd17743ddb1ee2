-- Aliases, limits, decisions, messages on their way out, and purging. Times are integer microseconds since 1970 UTC; NULL stands for
-- zero and empty values.

-- +goose Up

ALTER TABLE operations ADD COLUMN compensates BLOB;
-- The alias keys, 32 bytes each (S3.12).
ALTER TABLE operations ADD COLUMN aliases BLOB;
ALTER TABLE operations ADD COLUMN limits TEXT;
ALTER TABLE operations ADD COLUMN forget_at INTEGER;
ALTER TABLE operations ADD COLUMN purge_at INTEGER;
ALTER TABLE operations ADD COLUMN purged_at INTEGER;
-- Set in a row that is only a key: of the operation with this id. Its state is 'alias'. It is a row of this table so that one unique
-- index knows all keys, also for a program of an earlier version.
ALTER TABLE operations ADD COLUMN alias_of INTEGER;
-- Only settled operations that are to be purged or forgotten are in it (S13.3).
CREATE INDEX operations_purge ON operations (purge_at) WHERE purge_at IS NOT NULL;

-- What is taken of a limit in a period (S8.3). per is its length, 0 for none; period its start. used is the sum of what operations took,
-- those included that are forgotten.
CREATE TABLE limits (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  name   TEXT NOT NULL,
  per    INTEGER NOT NULL,
  period INTEGER NOT NULL,
  used   INTEGER NOT NULL,
  max    INTEGER NOT NULL
);
CREATE UNIQUE INDEX limits_name ON limits (tenant, name, per, period);
CREATE INDEX limits_period ON limits (period);

CREATE TABLE reservations (
  limit_id  INTEGER NOT NULL REFERENCES limits (id),
  operation INTEGER NOT NULL REFERENCES operations (id),
  amount    INTEGER NOT NULL,
  PRIMARY KEY (limit_id, operation)
) WITHOUT ROWID;
CREATE INDEX reservations_operation ON reservations (operation);

-- The journal (S10): a run numbers its steps.
CREATE TABLE runs (
  id       INTEGER PRIMARY KEY,
  tenant   TEXT NOT NULL,
  run      TEXT NOT NULL,
  steps    INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  began_at INTEGER NOT NULL,
  last_at  INTEGER NOT NULL
);
CREATE UNIQUE INDEX runs_run ON runs (tenant, run);

CREATE TABLE decisions (
  id        INTEGER PRIMARY KEY,
  run       INTEGER NOT NULL REFERENCES runs (id),
  step      TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  tool      TEXT,
  intent_id TEXT,
  arguments BLOB,
  finish    INTEGER NOT NULL,
  note      TEXT,
  actor     TEXT,
  operation BLOB
);
CREATE UNIQUE INDEX decisions_step ON decisions (run, step);
CREATE UNIQUE INDEX decisions_seq ON decisions (run, seq);

-- The outbox (S9.2): a queue numbers the messages of its subject. It stays when it is empty, so that numbers are not used again. due_at
-- is NULL where nothing waits or the head is parked, and the end of the lease while a relay has it.
CREATE TABLE queues (
  id       INTEGER PRIMARY KEY,
  tenant   TEXT NOT NULL,
  subject  TEXT NOT NULL,
  next     INTEGER NOT NULL,
  waiting  INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  reason   TEXT,
  parked   INTEGER NOT NULL,
  due_at   INTEGER,
  token    INTEGER NOT NULL
);
CREATE UNIQUE INDEX queues_subject ON queues (tenant, subject);
CREATE INDEX queues_due ON queues (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX queues_parked ON queues (parked) WHERE parked = 1;

CREATE TABLE messages (
  row          INTEGER PRIMARY KEY,
  queue        INTEGER NOT NULL REFERENCES queues (id),
  seq          INTEGER NOT NULL,
  tenant       TEXT NOT NULL,
  id           TEXT NOT NULL,
  at           INTEGER NOT NULL,
  type         TEXT,
  content_type TEXT,
  data         BLOB
);
CREATE UNIQUE INDEX messages_queue ON messages (queue, seq);
CREATE INDEX messages_id ON messages (id, tenant);

PRAGMA user_version = 2;
