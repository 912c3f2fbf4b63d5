//! Conditions under which a batch may run.

use serde::{Deserialize, Serialize};

use super::{DocumentTarget, Edited, Operation, OperationOn, on_document};
use crate::id::FencingToken;
use crate::store::Draft;
use crate::transaction::error::OperationError;

/// Fails the transaction unless it starts from this version of the document.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [if_unchanged(0), create(element("list", []))]).commit()?;
/// let error = transaction(&editor, [if_unchanged(0), create(element("list", []))]).commit().unwrap_err();
/// assert_eq!(error.to_string(), "operation 0 (ifUnchanged): the document is at version 1, not 0");
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn if_unchanged(version: u64) -> Operation {
    on_document(IfUnchanged { version })
}

/// See [`if_unchanged`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IfUnchanged {
    /// The version.
    pub version: u64,
}

impl OperationOn<DocumentTarget> for IfUnchanged {
    without!(size, positions);

    fn is_condition(&self) -> bool {
        true
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        match on.version() {
            found if found == self.version => Ok(()),
            found => Err(OperationError::VersionConflict {
                expected: self.version,
                found,
            }),
        }
    }
}

/// Fails the transaction unless a [lease](crate::lease::Lease) is still valid. A lease that has
/// ended when the operation runs is an error at once; one that has ended by the commit fails it
/// with [`CommitError::LeaseLost`](crate::CommitError::LeaseLost).
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
/// use std::time::Duration;
///
/// let editor = Editor::new(DataStore::new(), "teller-1");
/// let lease = editor.store().leases().acquire("ann", "teller-1", Duration::from_secs(60))?;
/// let open = || [require_lease(&lease), create(element("account", []))];
/// transaction(&editor, open()).commit()?;
///
/// let late = open();
/// lease.release()?;
/// let error = transaction(&editor, late).commit().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (requireLease): the lease with the fencing token 1 has ended",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn require_lease(lease: impl Into<FencingToken>) -> Operation {
    on_document(RequireLease {
        fencing_token: lease.into(),
    })
}

/// See [`require_lease`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequireLease {
    /// The fencing token of the lease.
    pub fencing_token: FencingToken,
}

impl OperationOn<DocumentTarget> for RequireLease {
    without!(size, positions);

    fn is_condition(&self) -> bool {
        true
    }

    fn run(self, on: &mut Draft, _: &DocumentTarget) -> Edited {
        Ok(on.require_token(self.fencing_token)?)
    }
}
