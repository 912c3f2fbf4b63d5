//! The tables, and what a server and a role must be set to.

use std::time::Duration;

use doclock::durable::LARGEST_EPOCH;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::connection::PostgresSession;
use crate::{PostgresError, PostgresOptions, journal, request};

/// The tables, without their schema.
const TABLES: [&str; 7] = [
    "doclock_lease",
    "doclock_log",
    "doclock_checkpoint",
    "doclock_follower",
    "doclock_term",
    "doclock_request",
    "doclock_request_number",
];

/// The functions, without their schema.
const FUNCTIONS: [&str; 5] = [
    journal::APPEND,
    request::INSERT,
    request::TAKE,
    request::LOOK,
    RESTORED,
];

/// The longest name of a document in bytes: it is in the key of each row.
pub(crate) const LONGEST_DOCUMENT: usize = 255;

/// Takes the lock under which tables and functions are created. Two processes that create a table
/// at once would otherwise fail, in spite of `IF NOT EXISTS`. The number is this package's own.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7163382951083);";

/// The statement that creates the tables.
///
/// - The row of a lease is never removed, because its epoch only rises. It is renewed often, so
///   half of each page is free and no index has the time.
/// - A row of the log is a block: the commits of one write. Its number is part of the key, which is
///   the second fence. A version would fence as well, but a block can be without commits. Each
///   owner writes the number after the last one that it has read, so a late block of an earlier
///   owner has the number of a block of the later one.
/// - A follower has the number of the last block that it has read. It moves it rarely.
/// - A row of a term has the version with which it began, and the epoch of the term before. So it
///   tells which commits of that term are stored, also when the log is cut: C8. It is kept for a
///   day.
/// - An entry of the checkpoint is stored in parts. Its key is binary, because keys of users may
///   contain a NUL. A key that is too long for an index is stored in `long_key`, and `key` has its
///   beginning and its hash.
fn tables(schema: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.doclock_lease (
            document text PRIMARY KEY,
            epoch bigint NOT NULL,
            owner text NOT NULL,
            address text,
            claim bigint NOT NULL,
            timeline bigint NOT NULL,
            system_identifier text NOT NULL,
            term interval NOT NULL,
            expires_at timestamptz NOT NULL,
            checkpoint bigint NOT NULL,
            cut bigint NOT NULL
        ) WITH (fillfactor = 50);
        CREATE TABLE IF NOT EXISTS {schema}.doclock_log (
            document text NOT NULL,
            number bigint NOT NULL,
            first_version bigint NOT NULL,
            last_version bigint NOT NULL,
            epoch bigint NOT NULL,
            block bytea NOT NULL,
            PRIMARY KEY (document, number)
        );
        CREATE TABLE IF NOT EXISTS {schema}.doclock_checkpoint (
            document text NOT NULL,
            key bytea NOT NULL,
            part integer NOT NULL,
            long_key bytea,
            data bytea NOT NULL,
            PRIMARY KEY (document, key, part)
        );
        CREATE TABLE IF NOT EXISTS {schema}.doclock_follower (
            document text NOT NULL,
            name text NOT NULL,
            number bigint NOT NULL,
            seen_at timestamptz NOT NULL,
            PRIMARY KEY (document, name)
        );
        CREATE TABLE IF NOT EXISTS {schema}.doclock_term (
            document text NOT NULL,
            epoch bigint NOT NULL,
            follows bigint NOT NULL,
            version bigint NOT NULL,
            began_at timestamptz NOT NULL,
            PRIMARY KEY (document, epoch)
        );
        {requests}",
        requests = request::tables(schema)
    )
}

/// Checks that a name can be stored, and returns it.
pub(crate) fn checked_name(name: &str, most: usize) -> Result<&str, PostgresError> {
    let bytes = name.len();
    match bytes > 0 && bytes <= most && !name.contains('\0') {
        true => Ok(name),
        false => Err(PostgresError::Name { bytes, most }),
    }
}

/// Returns a schema as it is written in a statement.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// Returns a text as a string of a statement, whatever the server takes a backslash for.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The statements that create the [functions](FUNCTIONS).
fn functions(schema: &str) -> [String; FUNCTIONS.len()] {
    let append = journal::create_append(schema);
    let [insert, take, look] = request::create_functions(schema);
    [append, insert, take, look, create_restored(schema)]
}

/// A statement that creates a function in PL/pgSQL, unless it is there. A function of an earlier
/// version stays, because a process of that version may call it.
///
/// The server keeps the plans of a function as long as a connection lasts. So a plan that was made
/// for a small table has to be right for a large one: each query of a function finds its rows by an
/// index, and the server may read no table as a whole.
pub(crate) fn create_function(
    schema: &str,
    name: &str,
    arguments: &str,
    returns: &str,
    body: &str,
) -> String {
    let create = format!(
        "BEGIN
            CREATE FUNCTION {schema}.{name}({arguments}) RETURNS {returns} LANGUAGE plpgsql
                SET enable_seqscan = off AS {};
        EXCEPTION WHEN duplicate_function THEN NULL;
        END",
        literal(body)
    );
    format!("DO {};", literal(&create))
}

/// Creates the tables and functions that are missing.
pub(crate) async fn create(session: &PostgresSession, schema: &str) -> Result<(), PostgresError> {
    // A role that may only use them must not be asked to create them. Nor must one that may create
    // the functions of this version be asked to own the tables.
    let missing = missing(session, schema).await?;
    if !missing.tables && !missing.functions {
        return Ok(());
    }
    let known = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    let quoted = quoted(schema);
    let mut statements = LOCK.to_owned();
    if session
        .query(known, &[(&schema, Type::TEXT)])
        .await?
        .is_empty()
    {
        statements += &format!("CREATE SCHEMA IF NOT EXISTS {quoted};");
    }
    if missing.tables {
        statements += &tables(&quoted);
    }
    statements += &functions(&quoted).concat();
    // Several statements in one message are one transaction.
    Ok(session.client.batch_execute(&statements).await?)
}

/// Of what something is missing in a schema.
struct Missing {
    tables: bool,
    functions: bool,
}

/// Looks what is missing.
async fn missing(session: &PostgresSession, schema: &str) -> Result<Missing, PostgresError> {
    let statement = "SELECT c.relname::text, c.relpersistence::text FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = ANY($2)
        UNION SELECT p.proname::text, NULL FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = $1 AND p.proname = ANY($3)";
    let parameters = [
        (&schema as _, Type::TEXT),
        (&&TABLES[..] as _, Type::TEXT_ARRAY),
        (&&FUNCTIONS[..] as _, Type::TEXT_ARRAY),
    ];
    let found = session.query(statement, &parameters).await?;
    let mut tables = 0;
    for row in &found {
        let (name, persistence): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        if persistence.as_deref() == Some("u") {
            return Err(PostgresError::Unlogged { table: name });
        }
        tables += usize::from(persistence.is_some());
    }
    Ok(Missing {
        tables: tables < TABLES.len(),
        functions: found.len() - tables < FUNCTIONS.len(),
    })
}

/// Checks that the server keeps what it confirms, and returns its system identifier.
///
/// Commits with `synchronous_commit` on `local` or `remote_write` survive a crash of the server,
/// and can be lost in a failover, as with an asynchronous standby.
pub(crate) async fn check_server(
    session: &PostgresSession,
    options: &PostgresOptions,
) -> Result<String, PostgresError> {
    let statement = "SELECT current_user::text, current_setting('synchronous_commit'),
        current_setting('fsync')";
    for row in session.query(statement, &[]).await? {
        let role: String = row.try_get(0)?;
        let (confirms, syncs): (String, String) = (row.try_get(1)?, row.try_get(2)?);
        if confirms == "off" {
            return Err(PostgresError::SynchronousCommit { role });
        }
        if syncs == "off" && !options.allows_lossy_server {
            return Err(PostgresError::Fsync { role });
        }
    }
    missing(session, &options.schema).await?;
    let statement = "SELECT system_identifier::text FROM pg_control_system()";
    match session.query(statement, &[]).await {
        Ok(rows) => match rows.first() {
            Some(row) => Ok(row.try_get(0)?),
            None => Ok(String::new()),
        },
        // Some services keep it from roles. The timeline is compared all the same.
        Err(PostgresError::Server { sqlstate, .. })
            if sqlstate == SqlState::INSUFFICIENT_PRIVILEGE.code() =>
        {
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

/// The number of the server's timeline, which rises when a standby takes over.
///
/// `pg_control_checkpoint()` would name the earlier one for a while: a promotion writes its
/// checkpoint later. In a standby, which cannot be written to, this is an error.
pub(crate) const TIMELINE: &str =
    "(SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint)";

/// Where the row of a lease is: the numbers of its database and of its table. A restore and a copy
/// have others. In front of it, the identity of a row has the system identifier of the server.
pub(crate) const PLACE: &str = "concat('/', (SELECT oid FROM pg_database
    WHERE datname = current_database()), '/', tableoid)";

/// The function with which an operator allows owners of documents that were restored or copied.
pub(crate) const RESTORED: &str = "doclock_restored";

/// The statement that creates the function, unless it is there.
///
/// C3: owners that the backup does not have may have had epochs up to this one. The first epoch
/// after it is that of another timeline, so it is above all of them.
fn create_restored(schema: &str) -> String {
    let largest = LARGEST_EPOCH;
    let body = format!(
        "DECLARE
            documents bigint;
        BEGIN
            IF $1 IS NULL OR $1 < 0 OR $1 > {largest} THEN
                RAISE EXCEPTION 'the epoch % is not between 0 and {largest}', $1;
            END IF;
            UPDATE {schema}.doclock_lease SET epoch = greatest(epoch, $1), claim = 0, timeline = 0,
                system_identifier = '', expires_at = clock_timestamp() - interval '1 hour';
            GET DIAGNOSTICS documents = ROW_COUNT;
            RETURN documents;
        END"
    );
    create_function(schema, RESTORED, "bigint", "bigint", &body)
}

/// Returns a duration as the server reads it: a number of microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema keeps the functions that it has. So a function with another body needs another
    /// number in its name, and then its statement has another checksum here.
    #[test]
    fn a_function_with_another_body_has_another_number() {
        let statements = functions("schema");
        let checksum = |name: &str| {
            let called = format!("schema.{name}(");
            let mut found = statements.iter().filter(|text| text.contains(&called));
            let bytes = found.next().unwrap().bytes();
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        };
        let checksums = FUNCTIONS.map(|name| (name, checksum(name)));
        assert_eq!(
            checksums,
            [
                ("doclock_append_1", 0xa09b_6e6a_b5ca_a5b9),
                ("doclock_insert_request_1", 0x4def_f8d3_ade5_100a),
                ("doclock_take_requests_1", 0x5745_10ce_d5f1_5e23),
                ("doclock_look_at_request_1", 0x0df4_53d4_9d93_6f5d),
                ("doclock_restored", 0x1619_f91f_df11_d8a0),
            ]
        );
    }
}
