//! Requests: operation batches that a machine submits to the owner of a document.
//!
//! A request is a row with a number. The owner takes the pending requests in the order of their
//! numbers, and runs each in the queue of the document like a local batch. The outcome is written
//! into the row: that of a commit by the statement that appends the commit, any other by a
//! statement that holds the lease. So a request has one outcome, whichever owner runs it.

mod error;
mod in_flight;
mod outcome;
mod owner;
mod pending;
mod runner;
mod statements;
mod submit;

pub use error::RequestError;
pub(crate) use in_flight::{Answers, InFlight};
pub(crate) use outcome::error_json_of;
pub use pending::PendingRequest;
pub use runner::{RequestRunner, RunnerEnded, RunnerOptions};
pub(crate) use statements::{INSERT, LOOK, RequestStatements, TAKE, create_functions};
pub(crate) use submit::{PATIENCE, RequestDraft};
pub use submit::{RequestOptions, Requests};

/// The statement that creates the tables of requests.
///
/// - C10: a statement that inserts a request holds the row of the last number until its end. So
///   numbers become visible in their order, which those of a sequence do not.
/// - The other indexes begin with the machine. So a query for a number has no index but one with
///   the number.
/// - A ticket is drawn by each submission, so an insert that is repeated has one effect.
/// - `taken` has the epoch of the owner that runs the request. While that owner has the lease, only
///   it settles the request.
/// - Batches and outcomes are JSON as bytes: `jsonb` has no NUL, which texts of users may contain.
pub(crate) fn tables(schema: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.doclock_request (
            document text NOT NULL,
            number bigint NOT NULL,
            machine text NOT NULL,
            ticket bigint NOT NULL,
            owner text NOT NULL,
            label text,
            key text NOT NULL,
            batch bytea NOT NULL,
            deadline timestamptz,
            inserted_at timestamptz NOT NULL,
            cancelled boolean NOT NULL DEFAULT false,
            taken bigint,
            outcome bytea,
            version bigint,
            epoch bigint,
            answered_by text,
            answered_at timestamptz,
            PRIMARY KEY (document, number),
            UNIQUE (machine, document, ticket)
        );
        CREATE INDEX IF NOT EXISTS doclock_request_pending
            ON {schema}.doclock_request (document, number) WHERE outcome IS NULL;
        CREATE INDEX IF NOT EXISTS doclock_request_key
            ON {schema}.doclock_request (machine, document, key);
        CREATE TABLE IF NOT EXISTS {schema}.doclock_request_number (
            document text PRIMARY KEY,
            number bigint NOT NULL
        ) WITH (fillfactor = 50);"
    )
}
