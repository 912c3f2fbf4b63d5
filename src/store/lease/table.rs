//! Leases: their owners, targets and ends.
//!
//! The table has no clock. A lease that has ended at `now` has no effect, even while it is stored.
//! So the removal of unreleased leases (`sweep`) only saves memory.

use std::sync::Arc;

use im::OrdSet;

use super::{LeaseTarget, LeaseTargets};
use crate::hashing::Secret;
use crate::id::{FencingToken, NodeId, OwnerId};
use crate::store::calendar::Expiry;
use crate::time::MonotonicTime;

/// One lease.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) targets: LeaseTargets,
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    pub(crate) expiry: Expiry,
}

impl Holding {
    fn is_live(&self, now: MonotonicTime) -> bool {
        !self.expiry.has_come(now)
    }
}

/// A lease that conflicts with another, and the conflicting target.
#[derive(Debug)]
pub(crate) struct InTheWay<'a> {
    pub(crate) target: &'a LeaseTarget,
    pub(crate) holding: &'a Arc<Holding>,
}

/// All leases at one moment. A clone costs O(1) and shares structure. An empty table allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTable {
    /// The last token. It outlives the last lease, because no token is issued twice.
    last_token: u64,
    table: Option<Arc<LeaseIndex>>,
}

/// Entries to be dropped outside the lock.
#[derive(Debug, Default)]
pub(crate) struct RemovedLeases {
    all: Option<Arc<LeaseIndex>>,
    some: Vec<FencingToken>,
}

impl RemovedLeases {
    /// The tokens of the leases, which have ended.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        let all = self.all.iter().flat_map(|table| table.holdings.keys());
        all.chain(&self.some).copied()
    }
}

/// `whole` and `nodes` map each target of each holding to that holding, so no two holdings share a
/// target.
#[derive(Clone, Debug, Default)]
struct LeaseIndex {
    holdings: im::HashMap<FencingToken, Arc<Holding>, Secret>,
    whole: Option<FencingToken>,
    nodes: im::HashMap<NodeId, FencingToken, Secret>,
    /// The same holdings, ordered by their ends.
    ends: OrdSet<(MonotonicTime, FencingToken)>,
}

impl LeaseTable {
    /// Each new lease removes at most so many expired ones, so its cost is bounded.
    const SWEPT_AT_ONCE: usize = 32;

    /// No leases. The tokens continue after the last one of an earlier table.
    pub(crate) fn after(last_token: u64) -> Self {
        Self {
            last_token,
            table: None,
        }
    }

    /// The last token.
    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    /// All stored leases, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Holding>> {
        let table = self.table.iter();
        table.flat_map(|table| table.holdings.values())
    }

    /// The leases that are still valid, in no particular order.
    pub(crate) fn valid(&self, now: MonotonicTime) -> impl Iterator<Item = &Arc<Holding>> {
        self.iter().filter(move |holding| holding.is_live(now))
    }

    /// The lease with this token, if it is still valid.
    pub(crate) fn live(&self, token: FencingToken, now: MonotonicTime) -> Option<&Arc<Holding>> {
        let holding = self.table.as_ref()?.holdings.get(&token)?;
        holding.is_live(now).then_some(holding)
    }

    /// A lease that conflicts with these targets: for a node, one on it or on the document; for the
    /// document, any. Of several node leases, the one that ends last.
    pub(crate) fn in_the_way<'a>(
        &'a self,
        targets: &[LeaseTarget],
        now: MonotonicTime,
    ) -> Option<InTheWay<'a>> {
        let table = self.table.as_deref()?;
        targets.iter().find_map(|target| {
            let holding = table.excluding(target)?;
            let theirs = holding.targets.binary_search(target).unwrap_or(0);
            Some(InTheWay {
                target: holding.targets.get(theirs)?,
                holding: holding.is_live(now).then_some(holding)?,
            })
        })
    }

    /// Adds a lease without conflicts, with the next token.
    #[must_use = "freed under a mutex, it would hold up others"]
    pub(crate) fn grant(
        &mut self,
        targets: LeaseTargets,
        owner: OwnerId,
        expiry: Expiry,
        now: MonotonicTime,
    ) -> (Arc<Holding>, RemovedLeases) {
        debug_assert!(self.in_the_way(&targets, now).is_none());
        let mut swept = self.sweep(now);
        self.last_token += 1;
        let token = FencingToken(self.last_token);
        let holding = Arc::new(Holding {
            targets,
            owner,
            token,
            expiry,
        });
        let table = Arc::make_mut(self.table.get_or_insert_default());
        table.replace(Arc::clone(&holding), &mut swept.some);
        (holding, swept)
    }

    /// Adds a stored lease with its token, the greatest so far.
    pub(crate) fn restore(&mut self, holding: Holding) {
        self.last_token = self.last_token.max(holding.token.get());
        Arc::make_mut(self.table.get_or_insert_default())
            .replace(Arc::new(holding), &mut Vec::new());
    }

    /// Changes the end of a valid lease.
    pub(crate) fn renew(
        &mut self,
        token: FencingToken,
        expiry: Expiry,
        now: MonotonicTime,
    ) -> Option<Arc<Holding>> {
        let holding = Arc::clone(self.live(token, now)?);
        let table = Arc::make_mut(self.table.as_mut()?);
        table.ends.remove(&(holding.expiry.at, token));
        let renewed = Arc::new(Holding {
            expiry,
            ..Holding::clone(&holding)
        });
        table.ends.insert((expiry.at, token));
        table.holdings.insert(token, Arc::clone(&renewed));
        Some(renewed)
    }

    /// Ends a lease.
    pub(crate) fn release(&mut self, token: FencingToken) {
        if let Some(table) = &mut self.table {
            let table = Arc::make_mut(table);
            table.remove(token);
            if table.holdings.is_empty() {
                self.table = None;
            }
        }
    }

    /// Removes expired leases: all if all have expired, otherwise a bounded number.
    fn sweep(&mut self, now: MonotonicTime) -> RemovedLeases {
        let Some(table) = &mut self.table else {
            return RemovedLeases::default();
        };
        let over = |end: Option<&(MonotonicTime, FencingToken)>| {
            end.copied()
                .filter(|(at, _)| *at <= now)
                .map(|(_, token)| token)
        };
        if over(table.ends.get_max()).is_some() {
            return RemovedLeases {
                all: self.table.take(),
                ..RemovedLeases::default()
            };
        }
        let mut swept = RemovedLeases::default();
        for _ in 0..Self::SWEPT_AT_ONCE {
            let Some(token) = over(table.ends.get_min()) else {
                break;
            };
            Arc::make_mut(table).remove(token);
            swept.some.push(token);
        }
        swept
    }
}

impl LeaseIndex {
    /// The stored lease that would conflict with this target.
    fn excluding(&self, target: &LeaseTarget) -> Option<&Arc<Holding>> {
        let token = match target {
            LeaseTarget::Document => self.ends.get_max().map(|(_, token)| token),
            LeaseTarget::Node(id) => self.nodes.get(id).or(self.whole.as_ref()),
        };
        self.holdings.get(token?)
    }

    /// Adds a lease in place of those that it conflicts with, which have ended.
    fn replace(&mut self, holding: Arc<Holding>, swept: &mut Vec<FencingToken>) {
        for target in holding.targets.iter() {
            while let Some(ended) = self.excluding(target).map(|ended| ended.token) {
                self.remove(ended);
                swept.push(ended);
            }
        }
        self.add(holding);
    }

    fn add(&mut self, holding: Arc<Holding>) {
        let token = holding.token;
        for target in holding.targets.iter() {
            match target {
                LeaseTarget::Document => self.whole = Some(token),
                LeaseTarget::Node(id) => {
                    self.nodes.insert(id.clone(), token);
                }
            }
        }
        self.ends.insert((holding.expiry.at, token));
        self.holdings.insert(token, holding);
    }

    fn remove(&mut self, token: FencingToken) {
        let Some(holding) = self.holdings.remove(&token) else {
            return;
        };
        self.ends.remove(&(holding.expiry.at, token));
        for target in holding.targets.iter() {
            match target {
                LeaseTarget::Document => self.whole = None,
                LeaseTarget::Node(id) => {
                    self.nodes.remove(id);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/lease_table.rs"]
mod tests;
