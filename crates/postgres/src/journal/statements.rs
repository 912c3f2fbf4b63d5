//! The statements of a write, and the function that an append calls. They are made once.

use crate::lease::holds;
use crate::schema::create_function;

/// The function of an append, without its schema. A function with another body gets another number,
/// because processes of several versions can use one schema.
pub(crate) const APPEND: &str = "doclock_append_1";

/// The texts of the statements, which depend on the schema alone.
#[derive(Debug)]
pub(crate) struct JournalStatements {
    pub(super) append: String,
    pub(super) checkpoint: String,
}

impl JournalStatements {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            append: format!(
                "SELECT {schema}.{APPEND}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
            ),
            checkpoint: checkpoint(schema),
        }
    }
}

/// The statement that creates the function of an append, unless it is there.
///
/// The server keeps the plans of a function as long as a connection lasts. So it plans an append
/// once, although no statement is prepared. A call is one statement, and so one transaction.
///
/// - C1: the first query locks the lease, and the lock lasts until the end of the transaction.
///   Under READ COMMITTED, each later query sees what was committed before that query began. No
///   other owner can begin meanwhile, so none of them depends on an earlier moment.
/// - C9: all requests of the block are locked while they are pending, or nothing is written. A
///   query that locks a request sees the outcome that was written before.
pub(crate) fn create_append(schema: &str) -> String {
    let body = format!(
        "BEGIN
            PERFORM 1 FROM {schema}.doclock_lease WHERE {holds} AND cut < $4 FOR SHARE;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            FOR nth IN 1 .. cardinality($8) LOOP
                PERFORM 1 FROM {schema}.doclock_request
                    WHERE document = $1 AND number = $8[nth] AND outcome IS NULL
                    FOR NO KEY UPDATE;
                IF NOT FOUND THEN
                    RETURN false;
                END IF;
            END LOOP;
            FOR nth IN 1 .. cardinality($8) LOOP
                UPDATE {schema}.doclock_request SET outcome = $9[nth], version = $10[nth],
                    epoch = $2, answered_by = $11, answered_at = clock_timestamp()
                    WHERE document = $1 AND number = $8[nth];
            END LOOP;
            INSERT INTO {schema}.doclock_log
                (document, number, first_version, last_version, epoch, block)
            VALUES ($1, $4, $5, $6, $2, $7);
            RETURN true;
        END",
        holds = holds(),
    );
    let arguments = "text, bigint, text, bigint, bigint, bigint, bytea, bigint[], bytea[],
        bigint[], text";
    create_function(schema, APPEND, arguments, "boolean", &body)
}

/// The statement of a write with entries of a checkpoint.
///
/// No two of its parts change the same row: `gone` has the parts that an entry no longer has, and a
/// block that would be removed at once is not inserted. C9: the outcomes and the rest are written
/// under one condition, because an update in a `WITH` runs whether or not the rest selects a row.
fn checkpoint(schema: &str) -> String {
    format!(
        "WITH h AS MATERIALIZED (SELECT 1 FROM {schema}.doclock_lease
            WHERE {holds} AND ($4::bigint IS NULL OR cut < $4) AND checkpoint = $12 - 1
            FOR NO KEY UPDATE),
        r AS MATERIALIZED (SELECT q.number FROM h, {schema}.doclock_request q
            WHERE q.document = $1 AND q.number = ANY($8) AND q.outcome IS NULL
            ORDER BY q.number FOR NO KEY UPDATE OF q),
        f AS MATERIALIZED (SELECT 1 FROM h
            WHERE (SELECT count(*) FROM r) = cardinality($8::bigint[])),
        s AS (UPDATE {schema}.doclock_request q SET outcome = a.outcome, version = a.version,
                epoch = $2, answered_by = $11, answered_at = clock_timestamp()
            FROM f, unnest($8::bigint[], $9::bytea[], $10::bigint[])
                AS a (number, outcome, version)
            WHERE q.document = $1 AND q.number = a.number),
        l AS (UPDATE {schema}.doclock_lease SET checkpoint = $12, cut = {cut} FROM f
            WHERE document = $1 RETURNING cut),
        gone AS (DELETE FROM {schema}.doclock_checkpoint c
            USING l, unnest($14::bytea[], $15::integer[]) AS e (key, parts)
            WHERE c.document = $1 AND c.key = {key} AND c.part >= e.parts),
        put AS (INSERT INTO {schema}.doclock_checkpoint AS c
                (document, key, part, long_key, data)
            SELECT $1, {key}, e.part, {long_key}, e.data
            FROM l, unnest($16::bytea[], $17::integer[], $18::bytea[]) AS e (key, part, data)
            ON CONFLICT (document, key, part) DO UPDATE SET data = excluded.data),
        block AS (INSERT INTO {schema}.doclock_log
                (document, number, first_version, last_version, epoch, block)
            SELECT $1, $4, $5, $6, $2, $7 FROM l
            WHERE $4 > l.cut),
        removed AS (DELETE FROM {schema}.doclock_log g USING l
            WHERE g.document = $1 AND g.number <= l.cut),
        begun AS (INSERT INTO {schema}.doclock_term (document, epoch, follows, version, began_at)
            SELECT $1, $2, coalesce((SELECT max(epoch) FROM {schema}.doclock_term
                WHERE document = $1), 0), $19::bigint, clock_timestamp()
            FROM l WHERE $19 IS NOT NULL
            ON CONFLICT (document, epoch) DO NOTHING),
        ended AS (DELETE FROM {schema}.doclock_term t USING l
            WHERE $19 IS NOT NULL AND t.document = $1
            AND t.began_at < clock_timestamp() - interval '1 day')
        SELECT count(*) = 1 FROM l",
        holds = holds(),
        cut = cut(schema),
        key = stored_key("e.key"),
        long_key = long_key("e.key"),
    )
}

/// The number up to which blocks are removed: as told, and no further than there are blocks, or
/// than the slowest follower has read. A follower that has not moved for a minute does not count:
/// it loads the checkpoint instead.
fn cut(schema: &str) -> String {
    format!(
        "CASE WHEN $13::bigint IS NULL THEN cut ELSE greatest(cut, least($13,
            greatest(cut, $4, (SELECT max(number) FROM {schema}.doclock_log WHERE document = $1)),
            (SELECT min(number) FROM {schema}.doclock_follower
                WHERE document = $1 AND seen_at > clock_timestamp() - interval '1 minute'))) END"
    )
}

/// The most bytes of a key that an index has. Longer ones have their beginning and their hash,
/// with a length that no short key has.
const LONGEST_KEY: usize = 512;

pub(super) fn stored_key(key: &str) -> String {
    let beginning = LONGEST_KEY + 1 - 32;
    format!(
        "(CASE WHEN octet_length({key}) <= {LONGEST_KEY} THEN {key}
        ELSE substring({key} FROM 1 FOR {beginning}) || sha256({key}) END)"
    )
}

fn long_key(key: &str) -> String {
    format!("(CASE WHEN octet_length({key}) > {LONGEST_KEY} THEN {key} END)")
}
