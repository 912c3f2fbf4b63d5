//! The replica: a second store that only follows the commit events of the first.

use std::error::Error;

use doclock::{
    DataStore, Snapshot, document::Changes, events::Subscription, transaction::TransactionResult,
};

pub struct Replica(DataStore);

impl Replica {
    /// A store whose first version is made by these changes.
    pub fn new(imported: &Changes) -> Result<Self, Box<dyn Error>> {
        let replica = Self(DataStore::new());
        replica.repeat(imported)?;
        Ok(replica)
    }

    /// Repeats every commit, one by one, until the other store ends. Returns the resulting
    /// document, or the error.
    pub fn follow(self, events: Subscription) -> Result<Snapshot, String> {
        let missed = |count| match count {
            0 => Ok(()),
            _ => Err(format!("{count} commit events were missed")),
        };
        for event in &events {
            missed(event.missed)?;
            let TransactionResult {
                version, changes, ..
            } = &*event.commit;
            let repeated = self
                .repeat(changes)
                .map_err(|error| format!("the commit of version {version}: {error}"))?;
            if repeated != *version {
                return Err(format!("version {version} came where {repeated} was due"));
            }
        }
        Ok(self.0.snapshot())
    }

    /// Makes the changes as one transaction and returns the version.
    fn repeat(&self, changes: &Changes) -> Result<u64, Box<dyn Error>> {
        let mut transaction = self.0.begin("replica")?;
        for change in changes {
            transaction.apply(change.clone())?;
        }
        Ok(transaction.commit()?.version)
    }
}
