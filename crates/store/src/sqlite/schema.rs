//! The tables, as the list of steps that lead to them.
//!
//! Step n takes a file of version n - 1 to version n, which is stored in `user_version`. A step that was
//! released never changes: a later change is a new step.
//!
//! # Invariants
//! 1. `application_id` says whose file it is; every file of ours has it from its first byte on.
//! 2. Words of states are those of `domain`, and the file refuses every other.
//! 3. All rows of a plan hang below its row in `plan_heads` and go with it.
//!
//! # Not here
//! The time at which steps run, and the process that runs them: `open`.

use rusqlite::Connection;

/// `agnt`, in the header of the file.
pub(super) const APPLICATION_ID: u32 = 0x6167_6e74;

/// The version that this program writes.
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// Each takes the file one version further.
const STEPS: [&str; 10] = [STEP_1, STEP_2, STEP_3, STEP_4, STEP_5, STEP_6, STEP_7, STEP_8, STEP_9, STEP_10];

/// Takes a file of version `from` to [`VERSION`]. The caller holds the transaction.
pub(super) fn migrate(connection: &Connection, from: u32) -> rusqlite::Result<()> {
    for step in STEPS.iter().skip(from as usize) {
        connection.execute_batch(step)?;
    }
    connection
        .execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"))
}

/// Plans by the end of their id, and those of a batch, each by an index and not by looking at all plans.
const STEP_10: &str = "
CREATE INDEX plans_end ON plans(substr(id, -4));
CREATE INDEX plans_batch ON plans(CASE WHEN json_valid(spec) THEN spec ->> '$.batch' END)
    WHERE (CASE WHEN json_valid(spec) THEN spec ->> '$.batch' END) IS NOT NULL;
";

/// The plans that changed something, and the footprint of each, if it was computed. It is that of `attempt`,
/// and of the number of entries that the plan had then. The row is made with the first entry. Of a plan that
/// came to its end it has only the number.
const STEP_9: &str = "
CREATE TABLE footprints (
    head INTEGER PRIMARY KEY REFERENCES plan_heads(no) ON DELETE CASCADE,
    plan TEXT NOT NULL,
    is_open INTEGER NOT NULL DEFAULT 1 CHECK (is_open IN (0, 1)),
    attempt INTEGER,
    entries INTEGER,
    files INTEGER,
    bytes BLOB
) STRICT;
CREATE INDEX footprints_open ON footprints(plan) WHERE is_open = 1;
CREATE TRIGGER footprint_begins AFTER UPDATE OF entries ON plan_heads WHEN old.entries = 0 AND new.entries > 0 BEGIN
    INSERT OR IGNORE INTO footprints (head, plan) VALUES (new.no, new.plan);
END;
CREATE TRIGGER footprint_ends AFTER UPDATE OF state ON plans
WHEN (new.state IN ('applied', 'cancelled')) <> (old.state IN ('applied', 'cancelled')) BEGIN
    UPDATE footprints SET is_open = new.state NOT IN ('applied', 'cancelled'), bytes = NULL WHERE head = new.head;
END;
INSERT INTO footprints (head, plan, is_open)
    SELECT h.no, h.plan, p.state NOT IN ('applied', 'cancelled')
    FROM plan_heads h JOIN plans p ON p.head = h.no WHERE h.entries > 0;
";

/// The newest plan of a project, and the plans that ended long ago, each by an index and not by looking at
/// all plans.
const STEP_8: &str = "
ALTER TABLE plan_projects ADD COLUMN plan TEXT NOT NULL DEFAULT '';
UPDATE plan_projects SET plan = (SELECT h.plan FROM plan_heads h WHERE h.no = plan_projects.head);
DROP INDEX plan_projects_root;
CREATE INDEX plan_projects_newest ON plan_projects(root, plan);
CREATE INDEX plans_updated ON plans(state, updated);
";

/// Adds the variables that a worker must have for a job: a list in JSON, null if it needs none.
const STEP_7: &str = "
ALTER TABLE jobs ADD COLUMN keys TEXT;
";

/// Adds the contexts that nodes were given. The texts are among the contents.
const STEP_6: &str = "
CREATE TABLE contexts (
    no INTEGER PRIMARY KEY,
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    id TEXT NOT NULL UNIQUE,
    node TEXT NOT NULL,
    at INTEGER NOT NULL,
    request TEXT NOT NULL,
    receipt TEXT NOT NULL,
    text_hash BLOB NOT NULL
) STRICT;
CREATE INDEX contexts_plan ON contexts(head);
";

/// Adds an index for the nodes that were called, without a look at all calls.
const STEP_5: &str = "
CREATE INDEX tool_calls_node ON tool_calls(head, attempt, node);
";

/// Adds the endings of nodes, the superseded decisions, and the user's consents. A consent is no part of a
/// plan, and stays when plans go. The other fields of decisions are in their JSON.
const STEP_4: &str = "
CREATE TABLE node_runs (
    no INTEGER PRIMARY KEY,
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('strategize', 'execute', 'apply')),
    path TEXT NOT NULL,
    tries INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'skipped', 'cancelled')),
    exit_code INTEGER,
    text TEXT NOT NULL,
    json TEXT NOT NULL,
    changed INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    guidance_seen INTEGER NOT NULL,
    started INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    UNIQUE (head, attempt, phase, path)
) STRICT;

ALTER TABLE decisions ADD COLUMN superseded_by INTEGER;

CREATE TABLE consents (
    root BLOB NOT NULL,
    digest TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (root, digest)
) STRICT, WITHOUT ROWID;
";

/// Adds an index that alone suffices to count the running jobs. Time is no longer reserved, only added up.
const STEP_3: &str = "
DROP INDEX jobs_lease;
CREATE INDEX jobs_running ON jobs(boot, lease_until) WHERE state = 'running';
UPDATE spends SET actual = 0, assumed = 1 WHERE kind = 'time' AND actual IS NULL;
UPDATE plan_accounts SET reserved = 0 WHERE kind = 'time';
";

/// `plan_heads`: a row for each plan of which anything is stored, with the numbers given so far. So a number
/// and the row that gets it are one write. `plans` is separate, because a job may be queued for a plan that
/// is stored elsewhere.
const STEP_1: &str = "
CREATE TABLE plan_heads (
    no INTEGER PRIMARY KEY,
    plan TEXT NOT NULL UNIQUE,
    entries INTEGER NOT NULL DEFAULT 0,
    changesets INTEGER NOT NULL DEFAULT 0,
    decisions INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE plans (
    head INTEGER PRIMARY KEY REFERENCES plan_heads(no) ON DELETE CASCADE,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    spec TEXT NOT NULL,
    projects TEXT NOT NULL,
    phase TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    reversions INTEGER NOT NULL,
    version INTEGER NOT NULL,
    constrained_by TEXT NOT NULL,
    request TEXT NOT NULL,
    undone_at INTEGER,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    CHECK (
        (phase IN ('strategize', 'execute')
            AND state IN ('queued', 'processing', 'complete', 'errored', 'cancelled'))
        OR (phase = 'apply'
            AND state IN ('queued', 'processing', 'applied', 'constrained', 'errored', 'cancelled'))
    )
) STRICT;

CREATE TABLE plan_projects (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    no INTEGER NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (head, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_projects_root ON plan_projects(root);

CREATE TABLE decisions (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    decision TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (head, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (head, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    phase TEXT NOT NULL CHECK (phase IN ('strategize', 'execute', 'apply')),
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    fence INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    boot TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    lost_leases INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    cancel_at INTEGER,
    cancel_reason TEXT,
    sealed_at INTEGER,
    why TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_live ON jobs(head) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_queue ON jobs(id) WHERE state = 'queued';
CREATE INDEX jobs_lease ON jobs(lease_until) WHERE state = 'running';
CREATE INDEX jobs_plan ON jobs(head);

CREATE TABLE changesets (
    no INTEGER PRIMARY KEY,
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'interrupted')),
    entries INTEGER NOT NULL DEFAULT 0,
    digest BLOB,
    UNIQUE (head, ordinal),
    UNIQUE (head, id),
    CHECK ((state = 'open') = (digest IS NULL))
) STRICT;
CREATE INDEX changesets_open ON changesets(head, ordinal) WHERE state = 'open';

CREATE TABLE change_entries (
    changeset INTEGER NOT NULL REFERENCES changesets(no) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    head INTEGER NOT NULL,
    no INTEGER NOT NULL,
    id BLOB NOT NULL,
    call INTEGER NOT NULL,
    root INTEGER NOT NULL,
    path BLOB NOT NULL,
    op TEXT NOT NULL CHECK (op IN ('create', 'modify', 'delete', 'rename', 'mode')),
    from_path BLOB,
    before_kind TEXT, before_mode INTEGER, before_size INTEGER, before_hash BLOB, before_text INTEGER,
    after_kind TEXT, after_mode INTEGER, after_size INTEGER, after_hash BLOB, after_text INTEGER,
    base TEXT NOT NULL CHECK (base IN ('known', 'moved')),
    PRIMARY KEY (changeset, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX change_entries_id ON change_entries(head, id);

CREATE TABLE contents (
    hash BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    bytes BLOB,
    staged_at INTEGER,
    synced INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE tool_calls (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    no INTEGER NOT NULL,
    node TEXT NOT NULL,
    tool TEXT NOT NULL,
    requested TEXT NOT NULL,
    effective TEXT NOT NULL,
    started INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'ok', 'failed', 'timed_out', 'refused', 'cancelled')),
    duration_ms INTEGER,
    exit INTEGER,
    error TEXT,
    result TEXT,
    isolation TEXT,
    stdout_hash BLOB, stdout_total INTEGER, stdout_left_out INTEGER,
    stderr_hash BLOB, stderr_total INTEGER, stderr_left_out INTEGER,
    PRIMARY KEY (head, attempt, no)
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    rung TEXT NOT NULL,
    passed_over TEXT NOT NULL,
    dir BLOB NOT NULL,
    boot TEXT NOT NULL,
    opened INTEGER NOT NULL,
    closed INTEGER,
    not_captured TEXT NOT NULL,
    PRIMARY KEY (head, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE applies (
    id TEXT PRIMARY KEY,
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('apply', 'undo')),
    stage TEXT NOT NULL CHECK (stage IN ('sealed', 'applied', 'rolled_back', 'never_began')),
    net_hash BLOB NOT NULL,
    selection TEXT NOT NULL,
    summary TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX applies_plan ON applies(head);

CREATE TABLE locks (
    resource TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    boot TEXT NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE error_histories (
    head INTEGER PRIMARY KEY REFERENCES plan_heads(no) ON DELETE CASCADE,
    newest_attempt INTEGER NOT NULL,
    folded TEXT NOT NULL,
    retries TEXT NOT NULL,
    retries_total INTEGER NOT NULL
) STRICT;

CREATE TABLE error_records (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    record TEXT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (head, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX error_records_id ON error_records(head, id);
";

/// Adds the accounts of plans. The account of a day is no part of a plan, and stays when its plans go.
const STEP_2: &str = "
CREATE TABLE plan_accounts (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('time', 'steps', 'tool_calls', 'tokens', 'cost')),
    max INTEGER,
    used INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    PRIMARY KEY (head, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE day_accounts (
    day TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('time', 'steps', 'tool_calls', 'tokens', 'cost')),
    max INTEGER,
    used INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    PRIMARY KEY (day, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE spends (
    head INTEGER NOT NULL REFERENCES plan_heads(no) ON DELETE CASCADE,
    id BLOB NOT NULL,
    job TEXT NOT NULL,
    fence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('time', 'steps', 'tool_calls', 'tokens', 'cost')),
    model TEXT,
    day TEXT,
    reserved INTEGER NOT NULL,
    actual INTEGER,
    assumed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (head, id),
    CHECK (actual IS NULL OR actual <= reserved)
) STRICT, WITHOUT ROWID;
CREATE INDEX spends_open ON spends(head) WHERE actual IS NULL;
";

#[cfg(test)]
mod tests {
    use domain::{ApplyStage, CallState, JobState, NodeOutcome, Phase, PlanState, SpendKind};

    use super::*;

    fn fresh() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, 0).unwrap();
        connection.execute("INSERT INTO plan_heads (no, plan) VALUES (1, 'P')", []).unwrap();
        connection
    }

    #[test]
    fn a_file_of_the_first_version_is_brought_to_the_present_one_with_what_is_in_it() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(STEP_1).unwrap();
        connection.execute("INSERT INTO plan_heads (no, plan) VALUES (1, 'P')", []).unwrap();
        migrate(&connection, 1).unwrap();
        let plan: String = connection.query_row("SELECT plan FROM plan_heads", [], |row| row.get(0)).unwrap();
        let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!((plan.as_str(), version), ("P", VERSION));
        let columns = |connection: &Connection| -> Vec<String> {
            let all =
                "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c ORDER BY 1";
            let mut statement = connection.prepare(all).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(columns(&connection), columns(&fresh()));
    }

    #[test]
    fn a_plan_can_stand_in_each_of_the_16_states_and_in_no_other() {
        let connection = fresh();
        let words =
            ["queued", "processing", "complete", "applied", "constrained", "errored", "cancelled", "x"];
        let mut allowed = 0;
        for phase in ["strategize", "execute", "apply", "x"] {
            for word in words {
                let insert = "INSERT OR REPLACE INTO plans VALUES (1, 'P', '', '', '', ?1, ?2, 1, 0, 1, '', '', NULL, 0, 0)";
                let stored = connection.execute(insert, [phase, word]).is_ok();
                assert_eq!(stored, PlanState::parse(phase, word).is_some(), "{phase}/{word}");
                allowed += usize::from(stored);
            }
        }
        assert_eq!(allowed, PlanState::ALL.len());
    }

    #[test]
    fn every_word_of_the_domain_can_be_stored() {
        let connection = fresh();
        for phase in Phase::ALL {
            for state in JobState::ALL {
                let insert = "INSERT OR REPLACE INTO jobs (id, head, phase, state, created_at) VALUES ('J', 1, ?1, ?2, 0)";
                connection.execute(insert, [phase.as_str(), state.as_str()]).unwrap();
            }
        }
        for stage in ApplyStage::ALL {
            let insert = "INSERT OR REPLACE INTO applies VALUES ('A', 1, 'apply', ?1, x'', '', '', 0, NULL)";
            connection.execute(insert, [stage.as_str()]).unwrap();
        }
        for phase in Phase::ALL {
            for outcome in NodeOutcome::ALL {
                let insert = "INSERT OR REPLACE INTO node_runs VALUES (1, 1, 1, ?1, '', 1, ?2, 0, '', '', 0, 0, 0, 0, 0, 0, 0)";
                connection.execute(insert, [phase.as_str(), outcome.as_str()]).unwrap();
            }
        }
        for kind in SpendKind::ALL {
            connection
                .execute("INSERT INTO plan_accounts VALUES (1, ?1, NULL, 0, 0)", [kind.as_str()])
                .unwrap();
            connection
                .execute("INSERT INTO day_accounts VALUES ('2026-11-15', ?1, NULL, 0, 0)", [kind.as_str()])
                .unwrap();
            let insert = "INSERT OR REPLACE INTO spends (head, id, job, fence, kind, reserved) VALUES (1, x'', 'J', 1, ?1, 0)";
            connection.execute(insert, [kind.as_str()]).unwrap();
        }
        for state in CallState::ALL {
            let insert = "INSERT OR REPLACE INTO tool_calls (head, attempt, no, node, tool, requested, effective, started, state)
                          VALUES (1, 1, 1, '', '', '', '', 0, ?1)";
            connection.execute(insert, [state.as_str()]).unwrap();
        }
    }
}
