//! The replica: a second store that only follows the commit events of the first.

use std::error::Error;

use doclock::{
    DataStore, Snapshot, StoreOptions, document::Changes, events::Subscription,
    schema::SchemaViolation, transaction::TransactionResult,
};

pub struct Replica(DataStore);

impl Replica {
    /// A store that begins with a document.
    pub fn of(document: Snapshot) -> Result<Self, SchemaViolation> {
        StoreOptions::new().document(document).map(Self)
    }

    /// Repeats every commit, one by one, until the other store ends. Returns the resulting
    /// document, or the error.
    pub fn follow(self, events: Subscription) -> Result<Snapshot, String> {
        for event in &events {
            if event.missed > 0 {
                return Err(format!("{} commit events were missed", event.missed));
            }
            let TransactionResult {
                version, changes, ..
            } = &*event.commit;
            self.repeat(*version, changes)?;
        }
        Ok(self.document())
    }

    /// Makes the changes of the commit of this version as one transaction.
    pub fn repeat(&self, version: u64, changes: &Changes) -> Result<(), String> {
        let failed = |error: &dyn Error| format!("the commit of version {version}: {error}");
        let mut transaction = self.0.begin("replica").map_err(|error| failed(&error))?;
        for change in changes {
            let applied = transaction.apply(change.clone());
            applied.map_err(|error| failed(&error))?;
        }
        let repeated = transaction.commit().map_err(|error| failed(&error))?;
        match repeated.version {
            due if due == version => Ok(()),
            due => Err(format!("version {version} came where {due} was due")),
        }
    }

    pub fn document(&self) -> Snapshot {
        self.0.snapshot()
    }
}
