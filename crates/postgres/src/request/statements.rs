//! The statements that a request needs most, and the functions that they call. The server keeps the
//! plans of a function as long as a connection lasts, so it plans none of them again and again.

use crate::lease::holds;
use crate::schema::create_function;

/// The functions, without their schema. A function with another body gets another number, because
/// processes of several versions can use one schema.
pub(crate) const INSERT: &str = "doclock_insert_request_1";
pub(crate) const TAKE: &str = "doclock_take_requests_1";
pub(crate) const LOOK: &str = "doclock_look_at_request_1";

/// The texts of the statements, which depend on the schema alone.
#[derive(Debug)]
pub(crate) struct RequestStatements {
    pub(super) insert: String,
    pub(super) take: String,
    pub(super) look: String,
}

impl RequestStatements {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            insert: format!("SELECT {schema}.{INSERT}($1, $2, $3, $4, $5, $6, $7, $8)"),
            take: format!("SELECT * FROM {schema}.{TAKE}($1, $2, $3, $4, $5, $6)"),
            look: format!("SELECT * FROM {schema}.{LOOK}($1, $2, $3, $4)"),
        }
    }
}

/// The statements that create the functions, unless they are there.
pub(crate) fn create_functions(schema: &str) -> [String; 3] {
    [insert(schema), take(schema), look(schema)]
}

/// Inserts a request, and returns its number.
///
/// C10: the row of the last number is locked until the request is visible. C9: the insert waits for
/// the disk, so that no crash takes back the number of a request that an owner has seen. Otherwise
/// the number would be that of another request, which would get the outcome.
fn insert(schema: &str) -> String {
    let body = format!(
        "DECLARE
            next_number bigint;
        BEGIN
            PERFORM set_config('lock_timeout', '1000', true);
            INSERT INTO {schema}.doclock_request_number AS n (document, number) VALUES ($1, 1)
                ON CONFLICT (document) DO UPDATE SET number = n.number + 1
                RETURNING n.number INTO next_number;
            INSERT INTO {schema}.doclock_request (document, number, machine, ticket, owner, label,
                key, batch, deadline, inserted_at)
            VALUES ($1, next_number, $2, $3, $4, $5, $6, $7,
                clock_timestamp() + $8 * interval '1 microsecond', clock_timestamp());
            RETURN next_number;
        END"
    );
    let arguments = "text, text, bigint, text, text, text, bytea, bigint";
    create_function(schema, INSERT, arguments, "bigint", &body)
}

/// Takes pending requests after a number, in their order. Without pending requests, nothing is
/// locked or written.
///
/// C9: the lease is locked until the requests are taken. Each one is found by its key: a plan for
/// all of them could read the whole document.
fn take(schema: &str) -> String {
    let body = format!(
        "#variable_conflict use_column
        DECLARE
            pending record;
            bytes_before bigint := 0;
            has_lease boolean := false;
        BEGIN
            FOR pending IN SELECT number, octet_length(batch) AS bytes
                FROM {schema}.doclock_request
                WHERE document = $1 AND outcome IS NULL AND number > $4 ORDER BY number LIMIT $5
            LOOP
                EXIT WHEN bytes_before >= $6;
                IF NOT has_lease THEN
                    PERFORM set_config('synchronous_commit', 'off', true);
                    PERFORM 1 FROM {schema}.doclock_lease WHERE {holds} FOR SHARE;
                    EXIT WHEN NOT FOUND;
                    has_lease := true;
                END IF;
                RETURN QUERY UPDATE {schema}.doclock_request q SET taken = $2
                    WHERE q.document = $1 AND q.number = pending.number AND q.outcome IS NULL
                    RETURNING q.number, q.owner, q.label, q.key, q.batch, q.cancelled,
                        extract(epoch FROM q.deadline - clock_timestamp())::float8;
                bytes_before := bytes_before + pending.bytes;
            END LOOP;
        END",
        holds = holds(),
    );
    let arguments = "text, bigint, text, bigint, bigint, bigint";
    let rows = "TABLE (number bigint, owner text, label text, key text, batch bytea,
        cancelled boolean, remaining double precision)";
    create_function(schema, TAKE, arguments, rows, &body)
}

/// Reads what has become of a request, which is that of the ticket unless the ticket is null.
fn look(schema: &str) -> String {
    let body = format!(
        "#variable_conflict use_column
        BEGIN
            RETURN QUERY SELECT q.outcome, q.answered_by, q.epoch, q.taken, l.owner, l.epoch,
                q.outcome IS NULL
                    AND (q.taken IS NULL OR q.taken < l.epoch OR l.expires_at <= clock_timestamp()),
                q.deadline <= clock_timestamp()
            FROM {schema}.doclock_request q
            LEFT JOIN {schema}.doclock_lease l ON l.document = q.document AND l.epoch > 0
            WHERE q.document = $1 AND q.number = $2
                AND ($3 IS NULL OR q.machine = $4 AND q.ticket = $3);
        END"
    );
    let rows = "TABLE (outcome bytea, answered_by text, answered_in bigint, taken bigint,
        owner text, epoch bigint, is_free boolean, is_late boolean)";
    create_function(schema, LOOK, "text, bigint, bigint, text", rows, &body)
}
