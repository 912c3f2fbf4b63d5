//! The statements with which the owner of a document takes and settles requests.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use crate::PostgresError;
use crate::connection::{Parameter, PostgresSession};
use crate::lease::{OwnershipLease, holds, lock_limit};
use crate::schema::micros;

/// So many bytes of batches are read at once, and at least one batch.
const PAGE_BYTES: i64 = 4 << 20;

/// A request that the owner has taken.
#[derive(Debug)]
pub(super) struct TakenRequest {
    pub(super) number: i64,
    pub(super) owner: String,
    pub(super) label: Option<String>,
    pub(super) key: String,
    pub(super) batch: Vec<u8>,
    /// Until when it must begin, by the clock of this process: not later than by that of the
    /// server.
    pub(super) deadline: Option<Instant>,
    /// Whether it was cancelled while an earlier owner had it.
    pub(super) cancelled: bool,
}

/// An outcome without a commit of its own.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) number: i64,
    pub(super) outcome: Vec<u8>,
    /// The version that the request has seen. It has to be durable first.
    pub(super) version: u64,
}

/// A statement of the owner. It can be repeated if its answer is lost.
pub(super) trait OwnerStatement: Send + Sync + 'static {
    type Answer: Send + 'static;

    fn run(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> impl Future<Output = Result<Self::Answer, PostgresError>> + Send;
}

/// Takes pending requests after a number, in their order.
///
/// C10: what is visible has no gap that fills later, because numbers become visible in their
/// order. C9: from now on no other machine settles them while this owner has the lease. That may be
/// lost in a crash of the server, so the statement does not wait for the disk: an append checks the
/// outcomes again.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) after: i64,
    pub(super) most: i64,
}

impl OwnerStatement for Take {
    type Answer = Vec<TakenRequest>;

    async fn run(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> Result<Vec<TakenRequest>, PostgresError> {
        let limit = lock_limit(lease.window / 6);
        let parameters: [Parameter<'_>; 6] = [
            (&lease.identity.document, Type::TEXT),
            (&lease.identity.epoch, Type::INT8),
            (&limit, Type::TEXT),
            (&self.after, Type::INT8),
            (&self.most, Type::INT8),
            (&PAGE_BYTES, Type::INT8),
        ];
        // Before the server reads its clock.
        let start = Instant::now();
        let mut page = Vec::new();
        let statement = &lease.server.connections().of_requests.take;
        for row in session.query(statement, &parameters).await? {
            let remaining: Option<f64> = row.try_get(6)?;
            let remaining =
                remaining.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
            page.push(TakenRequest {
                number: row.try_get(0)?,
                owner: row.try_get(1)?,
                label: row.try_get(2)?,
                key: row.try_get(3)?,
                batch: row.try_get(4)?,
                cancelled: row.try_get(5)?,
                deadline: remaining.and_then(|remaining| start.checked_add(remaining)),
            });
        }
        page.sort_unstable_by_key(|taken| taken.number);
        Ok(page)
    }
}

/// Writes outcomes under the lease. Answers whether this process has it.
///
/// C9: an outcome that is there stays. So a repetition has no effect.
#[derive(Debug)]
pub(super) struct Settle {
    pub(super) settled: Vec<Settled>,
}

impl OwnerStatement for Settle {
    type Answer = bool;

    async fn run(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> Result<bool, PostgresError> {
        let schema = lease.server.schema();
        let holds = holds();
        let statement = format!(
            "WITH l AS MATERIALIZED (SELECT 1 FROM {schema}.doclock_lease WHERE {holds} FOR SHARE),
            r AS MATERIALIZED (SELECT q.number FROM l, {schema}.doclock_request q
                WHERE q.document = $1 AND q.number = ANY($4) AND q.outcome IS NULL
                ORDER BY q.number FOR NO KEY UPDATE OF q),
            s AS (UPDATE {schema}.doclock_request q SET outcome = a.outcome, version = a.version,
                    epoch = $2, answered_by = $7, answered_at = clock_timestamp()
                FROM r, unnest($4::bigint[], $5::bytea[], $6::bigint[])
                    AS a (number, outcome, version)
                WHERE q.document = $1 AND q.number = r.number AND a.number = r.number)
            SELECT count(*) FROM l"
        );
        let limit = lock_limit(lease.window / 6);
        let numbers: Vec<_> = self.settled.iter().map(|settled| settled.number).collect();
        let outcomes: Vec<_> = self
            .settled
            .iter()
            .map(|settled| &settled.outcome[..])
            .collect();
        let version = |settled: &Settled| i64::try_from(settled.version).unwrap_or(i64::MAX);
        let versions: Vec<_> = self.settled.iter().map(version).collect();
        let parameters: [Parameter<'_>; 7] = [
            (&lease.identity.document, Type::TEXT),
            (&lease.identity.epoch, Type::INT8),
            (&limit, Type::TEXT),
            (&numbers, Type::INT8_ARRAY),
            (&outcomes, Type::BYTEA_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&lease.identity.owner, Type::TEXT),
        ];
        let rows = session.query(&statement, &parameters).await?;
        let held: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(held == 1)
    }
}

/// Returns which of these requests were cancelled since they were taken.
pub(super) async fn cancelled(
    session: &PostgresSession,
    lease: &OwnershipLease,
    numbers: &[i64],
) -> Result<Vec<i64>, PostgresError> {
    let statement = format!(
        "SELECT number FROM {}.doclock_request
        WHERE document = $1 AND number = ANY($2) AND cancelled",
        lease.server.schema()
    );
    let parameters: [Parameter<'_>; 2] = [
        (&lease.identity.document, Type::TEXT),
        (&numbers, Type::INT8_ARRAY),
    ];
    let rows = session.query(&statement, &parameters).await?;
    let numbers = rows.iter().map(|row| row.try_get(0));
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Removes requests that were answered so long ago, at most 500 of the lowest numbers. Answers how
/// many.
#[derive(Debug)]
pub(super) struct RemoveOld {
    pub(super) keep: Duration,
}

impl OwnerStatement for RemoveOld {
    type Answer = u64;

    async fn run(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> Result<u64, PostgresError> {
        let schema = lease.server.schema();
        let statement = format!(
            "DELETE FROM {schema}.doclock_request WHERE document = $1 AND number = ANY(ARRAY(
                SELECT number FROM (SELECT number, outcome IS NOT NULL AND answered_at
                    < clock_timestamp() - $2 * interval '1 microsecond' AS is_old
                    FROM {schema}.doclock_request WHERE document = $1 ORDER BY number LIMIT 500) q
                WHERE is_old))
            AND outcome IS NOT NULL"
        );
        let keep = micros(self.keep);
        let parameters: [Parameter<'_>; 2] =
            [(&lease.identity.document, Type::TEXT), (&keep, Type::INT8)];
        session.execute(&statement, &parameters).await
    }
}
