//! The verdicts on the errors of this crate, in the common interface of doclock's errors.

use doclock::codes::{self, CodedError, Retry};
use serde_json::{Map, Value, json};

use crate::{MemberError, PostgresError, RequestError};

/// What the methods of an error return: its code, whether a retry may succeed, and the status.
type Verdict = (&'static str, Retry, u16);

macro_rules! coded {
    ($($error:ident: $verdict:ident),*) => {$(
        impl CodedError for $error {
            fn code(&self) -> &'static str {
                $verdict(self).0
            }

            fn retry(&self) -> Retry {
                $verdict(self).1
            }

            fn http_status(&self) -> u16 {
                $verdict(self).2
            }
        }
    )*};
}

coded!(PostgresError: of_server, RequestError: of_request, MemberError: of_member);

fn of_server(error: &PostgresError) -> Verdict {
    match error {
        PostgresError::Parameters { .. } => ("parameters", Retry::No, 500),
        PostgresError::Name { .. } => ("name", Retry::No, 422),
        PostgresError::Term { .. } => ("term", Retry::No, 500),
        PostgresError::NoThread { .. } => ("noThread", Retry::Later, 503),
        PostgresError::Timeout { .. } => ("timeout", Retry::Later, 503),
        PostgresError::Connection { .. } => ("connection", Retry::Later, 503),
        PostgresError::Server { .. } if error.is_passing() => ("server", Retry::Later, 503),
        PostgresError::Server { .. } => ("server", Retry::No, 500),
        PostgresError::SynchronousCommit { .. } => ("synchronousCommit", Retry::No, 500),
        PostgresError::Fsync { .. } => ("fsync", Retry::No, 500),
        PostgresError::Unlogged { .. } => ("unlogged", Retry::No, 500),
        PostgresError::Held { .. } => ("held", Retry::Later, 503),
        PostgresError::Restored { .. } => ("restored", Retry::No, 500),
        PostgresError::Epochs { .. } => ("epochs", Retry::No, 500),
    }
}

fn of_request(error: &RequestError) -> Verdict {
    match error {
        RequestError::Failed { error, .. } => (code_in(error), retry_in(error), status_in(error)),
        RequestError::Expired { .. } => ("requestExpired", Retry::Later, 503),
        RequestError::Cancelled { .. } => ("requestCancelled", Retry::No, 503),
        RequestError::Timeout { .. } => ("requestTimeout", Retry::No, 503),
        RequestError::Unknown { .. } => ("requestUnknown", Retry::No, 500),
        RequestError::NotFound { .. } => ("requestNotFound", Retry::No, 404),
        RequestError::Lost { .. } => ("requestLost", Retry::Now, 409),
        RequestError::TooLarge { .. } => ("requestTooLarge", Retry::No, 413),
        RequestError::NotData { .. } => ("requestNotData", Retry::No, 422),
        RequestError::Unreadable { .. } => ("requestUnreadable", Retry::No, 500),
        // A submission may have been inserted, so the same call again would insert a second one.
        RequestError::Server(cause) => ("requestServer", Retry::No, of_server(cause).2),
    }
}

fn of_member(error: &MemberError) -> Verdict {
    fn same(cause: &impl CodedError) -> Verdict {
        (cause.code(), cause.retry(), cause.http_status())
    }
    match error {
        MemberError::NotOwner { .. } => ("notOwner", Retry::No, 421),
        MemberError::Left { .. } => ("left", Retry::No, 410),
        MemberError::TermLost { .. } => ("termLost", Retry::No, 421),
        MemberError::OwnThread { .. } => ("ownThread", Retry::No, 500),
        MemberError::Server(cause) => same(cause),
        MemberError::Load(cause) => same(cause),
        MemberError::Follow(cause) => same(cause),
        MemberError::Close(cause) => same(cause),
    }
}

/// The codes that only an owner's runner gives a failed request.
const OF_RUNNERS: [&str; 4] = [
    "requestUnreadable",
    "managerPanicked",
    "outcomeNotStored",
    "failed",
];

/// The code of an error that a later version of doclock has named.
const UNKNOWN: &str = "other";

/// Adds to the JSON form of an error what its methods return.
pub(crate) fn add_verdict(evidence: &mut Map<String, Value>, error: &impl CodedError) {
    evidence.insert("retry".into(), json!(error.retry()));
    evidence.insert("httpStatus".into(), json!(error.http_status()));
}

fn code_in(error: &Map<String, Value>) -> &'static str {
    let code = error.get("code").and_then(Value::as_str).unwrap_or(UNKNOWN);
    let of_runners = || OF_RUNNERS.into_iter().find(|known| *known == code);
    codes::known(code).or_else(of_runners).unwrap_or(UNKNOWN)
}

/// A version of doclock that did not store the verdict counts as [`Retry::No`].
fn retry_in(error: &Map<String, Value>) -> Retry {
    let stored = error.get("retry");
    let is_stored = |retry: &Retry| stored == Some(&json!(retry));
    let verdicts = [Retry::Now, Retry::Later];
    verdicts.into_iter().find(is_stored).unwrap_or_default()
}

fn status_in(error: &Map<String, Value>) -> u16 {
    let stored = error.get("httpStatus").and_then(Value::as_u64);
    let status = stored.and_then(|status| u16::try_from(status).ok());
    status.unwrap_or_else(|| retry_in(error).http_status())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use doclock::document::EditError;
    use doclock::lock::{FifoLock, LockError};
    use serde::Serialize;

    use super::*;
    use crate::LostReason;
    use crate::request::error_json_of;

    fn text() -> String {
        "x".to_owned()
    }

    fn of_sqlstate(sqlstate: &str) -> PostgresError {
        let sqlstate = sqlstate.to_owned();
        PostgresError::Server {
            sqlstate,
            reason: text(),
        }
    }

    fn failed(error: &(impl CodedError + Serialize + std::fmt::Display)) -> RequestError {
        let error = error_json_of(error);
        RequestError::Failed {
            number: Some(7),
            error,
            machine: text(),
            epoch: 1,
        }
    }

    fn servers() -> Vec<PostgresError> {
        let time = Duration::from_secs(1);
        vec![
            PostgresError::Parameters { reason: text() },
            PostgresError::Name { bytes: 0, most: 63 },
            PostgresError::Term {
                term: time,
                margin: time,
            },
            PostgresError::NoThread { reason: text() },
            PostgresError::Timeout { timeout: time },
            PostgresError::Connection { reason: text() },
            of_sqlstate("57P01"),
            of_sqlstate("42501"),
            PostgresError::SynchronousCommit { role: text() },
            PostgresError::Fsync { role: text() },
            PostgresError::Unlogged { table: text() },
            PostgresError::Held {
                document: text(),
                owner: text(),
                address: None,
                epoch: 1,
                remaining: time,
            },
            PostgresError::Restored {
                document: text(),
                schema: text(),
                epoch: 1,
            },
            PostgresError::Epochs {
                document: text(),
                epoch: 1,
                largest: 1,
            },
        ]
    }

    fn requests() -> Vec<RequestError> {
        let (document, number) = (text(), 7);
        vec![
            RequestError::Expired {
                number: None,
                error: None,
                machine: text(),
                epoch: None,
            },
            RequestError::Cancelled {
                number: None,
                error: None,
                machine: text(),
                epoch: None,
            },
            RequestError::Timeout {
                number,
                waited: Duration::from_secs(1),
                ahead: 0,
                owner: None,
                epoch: None,
                taken: None,
            },
            RequestError::Unknown {
                document: text(),
                version: 1,
                epoch: 1,
            },
            RequestError::NotFound {
                document: text(),
                number,
            },
            RequestError::Lost { document, number },
            RequestError::TooLarge { bytes: 2, most: 1 },
            RequestError::NotData { reason: text() },
            RequestError::Unreadable {
                number,
                reason: text(),
            },
            of_sqlstate("57P01").into(),
        ]
    }

    fn members() -> Vec<MemberError> {
        let document = text();
        let reason = LostReason::Expired;
        vec![
            MemberError::NotOwner { document: text() },
            MemberError::Left { document: text() },
            MemberError::TermLost {
                document: text(),
                epoch: 1,
                reason,
            },
            MemberError::OwnThread { document },
        ]
    }

    /// A row of the guide: the error, its code, its verdict and its status.
    type Row = [String; 4];

    /// The row of an error. The serialized error has the same code.
    fn row<E: CodedError + Serialize + std::fmt::Debug>(name: &str, error: &E) -> Row {
        let variant = format!("{error:?}");
        let variant = variant.split([' ', '(']).next().unwrap();
        let json = serde_json::to_value(error).unwrap();
        assert_eq!(json["code"], error.code(), "{error:?}");
        let retry = json!(error.retry()).as_str().unwrap().to_owned();
        let status = error.http_status().to_string();
        [
            format!("{name}::{variant}"),
            error.code().to_owned(),
            retry,
            status,
        ]
    }

    #[test]
    fn each_row_of_the_guide_has_the_code_the_verdict_and_the_status_of_its_error() {
        let page = include_str!("../../../docs/guide/cluster.md");
        let cells = page
            .lines()
            .map(|line| line.split(" | ").collect::<Vec<_>>());
        let rows = cells.filter(|cells| cells.len() == 6 && cells[0].starts_with("| `"));
        let rows = rows.map(|cells| {
            let of_code = [cells[0], cells[1]].map(|cell| cell.trim_matches(['|', ' ', '`']));
            let rest = [cells[4], cells[5]].map(|cell| cell.trim_end_matches(" |"));
            [of_code[0], of_code[1], rest[0], rest[1]].map(str::to_owned)
        });
        let mut expected: BTreeSet<Row> = BTreeSet::new();
        expected.extend(servers().iter().map(|error| row("PostgresError", error)));
        expected.extend(requests().iter().map(|error| row("RequestError", error)));
        expected.extend(members().iter().map(|error| row("MemberError", error)));
        // These two have what the error in them has.
        let (own, cause) = ("its own", "that of the cause");
        let server = expected
            .iter()
            .find(|row| row[0] == "RequestError::Server")
            .cloned();
        let mut server = server.unwrap();
        expected.remove(&server);
        server[3] = cause.to_owned();
        expected.insert(server);
        let failed = ["RequestError::Failed", "that of the error in it", own, own];
        expected.insert(failed.map(str::to_owned));
        assert_eq!(rows.collect::<BTreeSet<_>>(), expected);
    }

    #[test]
    fn cluster_02_a_request_has_the_verdict_of_the_error_on_the_owner() {
        let outdated = EditError::Outdated {
            id: "title".into(),
            version: 7,
        };
        let lock = FifoLock::new();
        let _held = lock.lock("ann").unwrap();
        let other = || lock.try_lock("bob").unwrap_err();
        let locked: LockError = std::thread::scope(|s| s.spawn(other).join().unwrap());
        let of = |error: &RequestError| (error.code(), error.retry(), error.http_status());
        assert_eq!(of(&failed(&outdated)), ("nodeOutdated", Retry::Now, 409));
        assert_eq!(of(&failed(&locked)), ("lockWouldBlock", Retry::Later, 503));
        // As a version that stored no verdict has written it, and one with codes of its own.
        for (code, expected) in [("nodeOutdated", "nodeOutdated"), ("later", "other")] {
            let error = Box::new(Map::from_iter([("code".to_owned(), json!(code))]));
            let error = RequestError::Failed {
                number: None,
                error,
                machine: text(),
                epoch: 1,
            };
            assert_eq!(of(&error), (expected, Retry::No, 422));
        }
    }
}
