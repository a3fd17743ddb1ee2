-- A file as the program with schema version 1 wrote it: five operations, one of them in review with a duplicate alarm. It is what
-- sqlite3's .dump says, with the two marks that it leaves out.
PRAGMA application_id=1164341041;
PRAGMA user_version=1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE schema_migrations (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO schema_migrations VALUES(1,0,1,'2026-11-30 17:40:25');
INSERT INTO schema_migrations VALUES(2,1,1,'2026-11-30 17:40:25');
CREATE TABLE clock (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  high INTEGER NOT NULL
);
INSERT INTO clock VALUES(1,1772366406000000);
CREATE TABLE secret (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  value BLOB NOT NULL
);
INSERT INTO secret VALUES(1,X'00d0eb7373a65fc5701a40ead0c1dc0e863c082b1e90cda742b53b6a72537f28');
CREATE TABLE documents (
  digest BLOB PRIMARY KEY,
  body   BLOB NOT NULL
);
INSERT INTO documents VALUES(X'1b551587059622f0d62ffa8a371207104a31c6d59bbe2d6563c5199e51d9f267',X'6120706f6c696379');
CREATE TABLE terms (
  id     INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  body   TEXT NOT NULL
);
INSERT INTO terms VALUES(1,X'cec4f3355dd83463396134caa2f2f365fb12d04863b9bc83f15f6bd5117aba71','{"class":"non_idempotent","call_timeout":30000000000,"grace":30000000000,"pause":30000000000,"transit":30000000000,"processing":60000000000,"attempts":4,"within":1800000000000,"backoff":2000000000,"backoff_max":60000000000,"expiry":86400000000000}');
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
INSERT INTO operations VALUES(1,X'ad9d1bb21d59b64661f7334ad63d703bfc9df06b793e74e8b873e09b74287894',1,1,'in_progress',1772366460000000,'acme','stripe.refund','business','run-1','step-1','leased',0,NULL,NULL,'agent-1',NULL,NULL,'pi_leased',X'0700000000000000000000000000000000000000000000000000000000000000',NULL,1,NULL,1772366400000000,NULL,NULL,'worker-1',NULL,0,1,1,1,0,0,0,0,1772366400000000,1772366400000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,2,X'7b22616d6f756e74223a3438307d',X'7b22616d6f756e74223a3438302c22726561736f6e223a2274657874227d',NULL);
INSERT INTO operations VALUES(2,X'39235697b86b05c39e9ec9605471f0853196b6d3a42800ce8ae58056d2347b79',2,1,'succeeded',NULL,'acme','stripe.refund','business','run-1','step-1','succeeded',0,NULL,NULL,'agent-1',NULL,NULL,'pi_succeeded',X'0700000000000000000000000000000000000000000000000000000000000000',NULL,1,NULL,1772366400000000,NULL,NULL,NULL,NULL,0,1,1,0,1,0,0,0,NULL,1772366400000000,1772366400000000,1772366400000000,NULL,NULL,1772366401000000,'succeeded','answer','re_1',NULL,NULL,NULL,NULL,NULL,NULL,X'7b226f6b223a747275657d',2,X'7b22616d6f756e74223a3438307d',X'7b22616d6f756e74223a3438302c22726561736f6e223a2274657874227d',NULL);
INSERT INTO operations VALUES(3,X'c2164f6e9b94de1cb582540b9de41b1d9431a0853eb99bfc68e50c50ca588ae7',2,1,'failed',NULL,'acme','stripe.refund','business','run-1','step-1','failed',0,NULL,NULL,'agent-1',NULL,NULL,'pi_failed',X'0700000000000000000000000000000000000000000000000000000000000000',NULL,1,NULL,1772366401000000,NULL,'message',NULL,NULL,0,1,1,0,0,0,0,0,NULL,1772366401000000,1772366401000000,1772366401000000,NULL,NULL,1772366402000000,'rejected','rejected',NULL,NULL,NULL,NULL,'{"code":"code","message":"message"}',NULL,NULL,NULL,2,X'7b22616d6f756e74223a3438307d',X'7b22616d6f756e74223a3438302c22726561736f6e223a2274657874227d',NULL);
INSERT INTO operations VALUES(4,X'9c91b5ed0e1289cf77b7dc3cbb16fe65886ba5ea2c231691c7fb6b892c99e283',2,1,'unknown',1772366404761711,'acme','stripe.refund','business','run-1','step-1','unknown',0,NULL,NULL,'agent-1',NULL,NULL,'pi_unknown',X'0700000000000000000000000000000000000000000000000000000000000000',NULL,1,NULL,1772366402000000,NULL,'message',NULL,NULL,0,1,1,0,1,0,0,0,NULL,1772366402000000,1772366402000000,1772366402000000,NULL,1772366404761711,NULL,'unknown',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,2,X'7b22616d6f756e74223a3438307d',X'7b22616d6f756e74223a3438302c22726561736f6e223a2274657874227d',NULL);
INSERT INTO operations VALUES(5,X'daf1c31a1085b23826a8929621656ab4a79455c0ac39911d0c2f8d96c30da80b',4,2,'review',NULL,'acme','stripe.refund','business','run-1','step-1','review',0,NULL,NULL,'agent-1',NULL,NULL,'pi_review',X'0700000000000000000000000000000000000000000000000000000000000000',NULL,1,NULL,1772366403000000,NULL,NULL,NULL,NULL,0,1,1,0,1,0,0,0,NULL,1772366403000000,1772366403000000,1772366403000000,1772366405000000,1772366405908812,NULL,'unknown',NULL,NULL,'duplicate: the look-up found more than one',NULL,NULL,NULL,NULL,NULL,NULL,2,X'7b22616d6f756e74223a3438307d',X'7b22616d6f756e74223a3438302c22726561736f6e223a2274657874227d',NULL);
CREATE TABLE holds (
  operation INTEGER PRIMARY KEY REFERENCES operations (id),
  tenant    TEXT NOT NULL,
  resource  TEXT NOT NULL
);
INSERT INTO holds VALUES(5,'acme','pi_review');
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
INSERT INTO events VALUES(1,1,1,1772366400000000,'recorded',NULL,'in_progress',1,1,0,1,0,0,'agent-1',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(2,2,1,1772366400000000,'recorded',NULL,'in_progress',1,1,0,1,0,0,'agent-1',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(3,2,2,1772366401000000,'attempt_ended','in_progress','succeeded',1,1,0,0,0,0,'worker-1','succeeded',NULL,NULL,'re_1',NULL);
INSERT INTO events VALUES(4,3,1,1772366401000000,'recorded',NULL,'in_progress',1,1,0,1,0,0,'agent-1',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(5,3,2,1772366402000000,'attempt_ended','in_progress','failed',1,1,0,0,0,0,'worker-1','rejected',NULL,NULL,'re_1','message');
INSERT INTO events VALUES(6,4,1,1772366402000000,'recorded',NULL,'in_progress',1,1,0,1,0,0,'agent-1',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(7,4,2,1772366403000000,'attempt_ended','in_progress','unknown',1,1,0,0,0,0,'worker-1','unknown',NULL,NULL,'re_1','message');
INSERT INTO events VALUES(8,5,1,1772366403000000,'recorded',NULL,'in_progress',1,1,0,1,0,0,'agent-1',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(9,5,2,1772366404000000,'attempt_ended','in_progress','unknown',1,1,0,0,0,0,'worker-1','unknown',NULL,NULL,'re_1','message');
INSERT INTO events VALUES(10,5,3,1772366405000000,'taken_over','unknown','in_progress',2,1,0,0,0,0,'worker-2',NULL,NULL,NULL,NULL,NULL);
INSERT INTO events VALUES(11,5,4,1772366406000000,'ruled','in_progress','review',2,1,0,0,0,4,'worker-2',NULL,'many',NULL,NULL,NULL);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('schema_migrations',2);
CREATE UNIQUE INDEX operations_key ON operations (key);
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX operations_notable ON operations (state) WHERE state = 'review' OR state = 'failed' OR state = 'abandoned';
CREATE INDEX operations_alarm ON operations (alarm) WHERE alarm IS NOT NULL;
CREATE INDEX operations_twin ON operations (twin) WHERE twin IS NOT NULL;
CREATE INDEX holds_resource ON holds (resource);
CREATE UNIQUE INDEX events_operation ON events (operation, seq);
COMMIT;
