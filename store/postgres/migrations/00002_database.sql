-- Aliases, limits, decisions, messages on their way out, retention. The new columns of operations are NULL where a program of the
-- version before writes, which does not know them.

-- +goose Up

SELECT pg_advisory_xact_lock(4989345102350246401);

ALTER TABLE effectonce.operations
  ADD COLUMN compensates bytea,
  -- The alias keys, 32 bytes each (S3.12).
  ADD COLUMN aliases     bytea,
  ADD COLUMN limits      text,
  ADD COLUMN forget_at   bigint,
  ADD COLUMN purge_at    bigint,
  ADD COLUMN purged_at   bigint,
  -- Set in a row that is only a key: of the operation with this id. Its state is 'alias'. It is a row of this table so that one
  -- unique index knows all keys, also for a program of the version before.
  ADD COLUMN alias_of    bigint;
-- Only settled operations that are to be purged or forgotten are in this one (S13.3).
CREATE INDEX operations_purge ON effectonce.operations (purge_at, id) WHERE purge_at IS NOT NULL;
CREATE INDEX operations_alias ON effectonce.operations (alias_of) WHERE alias_of IS NOT NULL;

-- What is taken of a limit in the period that starts at period, 0 where there are no periods (S8.3). The row's lock orders those who
-- take of it. Those that are forgotten are still in used.
CREATE TABLE effectonce.limits (
  id     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  tenant text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  per    bigint NOT NULL,
  period bigint NOT NULL,
  used   bigint NOT NULL,
  max    bigint NOT NULL
);
CREATE UNIQUE INDEX limits_name ON effectonce.limits (tenant, name, per, period);
CREATE INDEX limits_period ON effectonce.limits (period);

-- An operation's part in a limit, until it fails.
CREATE TABLE effectonce.reservations (
  operation bigint NOT NULL,
  limit_id  bigint NOT NULL,
  amount    bigint NOT NULL,
  PRIMARY KEY (operation, limit_id)
);
CREATE INDEX reservations_limit ON effectonce.reservations (limit_id, operation);

-- The journal (S10). The lock of a run's row numbers its steps.
CREATE TABLE effectonce.runs (
  id       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  tenant   text NOT NULL,
  run      text NOT NULL,
  steps    bigint NOT NULL,
  finished text,
  began_at bigint NOT NULL,
  last_at  bigint NOT NULL
);
CREATE UNIQUE INDEX runs_run ON effectonce.runs (run, tenant);
CREATE INDEX runs_unfinished ON effectonce.runs (id) WHERE finished IS NULL;

CREATE TABLE effectonce.decisions (
  run       bigint NOT NULL,
  seq       bigint NOT NULL,
  at        bigint NOT NULL,
  finish    boolean NOT NULL,
  step      text NOT NULL,
  tool      text,
  intent_id text,
  note      text,
  actor     text,
  arguments bytea,
  operation bytea,
  PRIMARY KEY (run, seq)
);
CREATE UNIQUE INDEX decisions_step ON effectonce.decisions (run, step);

-- The outbox (S9.2) keeps numbering and delivery in rows of their own, so that a caller's long transaction, which numbers, is in no
-- relay's way. The lock of a subject's row numbers its messages in the order of commits.
CREATE TABLE effectonce.subjects (
  id      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  tenant  text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  last    bigint NOT NULL
);
CREATE UNIQUE INDEX subjects_subject ON effectonce.subjects (tenant, subject);

-- What relays know of a subject. due_at is NULL where nothing waits or the head is parked, and the end of the lease while a relay has it.
CREATE TABLE effectonce.queues (
  id        bigint PRIMARY KEY,
  delivered bigint NOT NULL,
  attempts  bigint NOT NULL,
  token     bigint NOT NULL,
  due_at    bigint,
  parked    boolean NOT NULL,
  reason    text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX queues_due ON effectonce.queues (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX queues_parked ON effectonce.queues (id) WHERE parked;

-- A message is fresh until a relay has made its queue due.
CREATE TABLE effectonce.messages (
  queue        bigint NOT NULL,
  seq          bigint NOT NULL,
  at           bigint NOT NULL,
  fresh        boolean NOT NULL,
  tenant       text NOT NULL,
  id           text NOT NULL,
  type         text,
  content_type text NOT NULL,
  data         bytea,
  PRIMARY KEY (queue, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX messages_id ON effectonce.messages (id, tenant);
CREATE INDEX messages_fresh ON effectonce.messages (queue, seq) WHERE fresh;

-- Numbers of transactions of the last hours, by which their writers find out whether a commit whose answer was lost took place.
CREATE TABLE effectonce.writes (
  id bigint PRIMARY KEY,
  at bigint NOT NULL
);
CREATE INDEX writes_at ON effectonce.writes (at);
