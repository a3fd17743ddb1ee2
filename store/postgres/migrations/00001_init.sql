-- The first schema. Times are integer microseconds since 1970 UTC; NULL stands for zero and empty values. Text that PostgreSQL
-- cannot hold (zero bytes, invalid UTF-8) is stored as \x01 and its bytes in hex.
--
-- There are no foreign keys: references are made by this package, and a key's check locks the row that it refers to, which many
-- operations have in common.

-- +goose Up

-- Several programs may start at once: they migrate one after the other. The lock ends with the transaction.
SELECT pg_advisory_xact_lock(4989345102350246401);

-- One row: a time by which somebody has decided something, at most about a second behind the latest (S5.4).
CREATE TABLE effectonce.clock (
  id   smallint PRIMARY KEY CHECK (id = 1),
  high bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO effectonce.clock (id, high) VALUES (1, 0);

-- The installation's secret (S3.9).
CREATE TABLE effectonce.secret (
  id    smallint PRIMARY KEY CHECK (id = 1),
  value bytea NOT NULL
);

-- Versions of policies and contracts, by the digest of their bytes (S3.11).
CREATE TABLE effectonce.documents (
  digest bytea PRIMARY KEY,
  body   bytea NOT NULL
);

-- Terms are the same for very many operations, which refer to them (S3.11).
CREATE TABLE effectonce.terms (
  id     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  digest bytea NOT NULL UNIQUE,
  body   text NOT NULL
);

-- One row per operation; ids grow with creation.
CREATE SEQUENCE effectonce.operation_ids;
CREATE TABLE effectonce.operations (
  id               bigint PRIMARY KEY,
  -- changed_at is the moment of the last transition: whoever reads the row knows that it is not earlier.
  changed_at       bigint NOT NULL,
  version          bigint NOT NULL,
  token            bigint NOT NULL,
  due_at           bigint,
  opened_at        bigint,
  started_at       bigint,
  first_sent_at    bigint,
  last_sent_at     bigint,
  taken_at         bigint,
  retry_at  bigint,
  settled_at       bigint,
  created_at       bigint,
  revision         bigint NOT NULL,
  terms            bigint NOT NULL,
  epoch            bigint NOT NULL,
  attempt          bigint NOT NULL,
  spent            bigint NOT NULL,
  looks            bigint NOT NULL,
  -- same: 1 says that arguments are the bytes of business, 2 that request is; then they are not stored again.
  same             bigint NOT NULL,
  open             boolean NOT NULL,
  exposed          boolean NOT NULL,
  parked           boolean NOT NULL,
  stored_error     boolean NOT NULL,
  key              bytea NOT NULL,
  state            text NOT NULL,
  tenant           text NOT NULL,
  tool             text NOT NULL,
  scope            text NOT NULL,
  run              text,
  step             text,
  intent_id        text NOT NULL,
  supersedes       bytea,
  supersede_reason text,
  actor            text,
  fingerprint      bytea,
  request_scope    text,
  resource         text,
  twin             bytea,
  twin_of          bytea,
  stamp            text,
  hold             text,
  reason           text,
  owner            text,
  downstream_key   text,
  last_verdict     text,
  proof            text,
  reference        text,
  alarm            text,
  permission       text,
  evidence         text,
  failure          text,
  result_digest    bytea,
  result_omitted   text,
  business         bytea,
  arguments        bytea,
  request          bytea,
  result           bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- The claim's durable unique constraint (S5.3).
CREATE UNIQUE INDEX operations_key ON effectonce.operations (key);
-- Only what is not final is in this one, so that it stays small.
CREATE INDEX operations_due ON effectonce.operations (due_at, id) WHERE due_at IS NOT NULL;
-- For people: what did not just succeed.
CREATE INDEX operations_notable ON effectonce.operations (id) WHERE state IN ('review', 'failed', 'abandoned');
CREATE INDEX operations_alarm ON effectonce.operations (id) WHERE alarm IS NOT NULL;
-- Only tools that ask for twin alerts pay for them (S3.8).
CREATE INDEX operations_twin ON effectonce.operations (twin, id) WHERE twin IS NOT NULL;

-- Resources with a duplicate alarm: new operations on them are held (S7.1).
CREATE TABLE effectonce.holds (
  operation bigint PRIMARY KEY,
  tenant    text NOT NULL,
  resource  text NOT NULL
);
CREATE INDEX holds_resource ON effectonce.holds (resource, tenant);

-- The audit: one line for each transition (S5.1 I7). write_id is the writer's own number for its write, by which it finds out
-- whether a write whose answer was lost took place.
CREATE TABLE effectonce.events (
  operation  bigint NOT NULL,
  seq        bigint NOT NULL,
  at         bigint NOT NULL,
  token      bigint NOT NULL,
  attempt    bigint NOT NULL,
  epoch      bigint NOT NULL,
  line       bigint NOT NULL,
  write_id   bigint NOT NULL,
  sends      boolean NOT NULL,
  risk       boolean NOT NULL,
  kind       text NOT NULL,
  from_state text,
  to_state   text NOT NULL,
  actor      text,
  verdict    text,
  found      text,
  resolution text,
  reference  text,
  reason     text,
  PRIMARY KEY (operation, seq)
);
