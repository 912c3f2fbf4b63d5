//! A transaction on nodes: it locks nodes while it edits, and its commit validates what it has
//! read without a lock.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::needs::locks_for;
use super::reads::ReadSet;
use super::session::FromSession;
use crate::codes::Retry;
use crate::document::plan::Planned;
use crate::document::{Budget, EditError, Overlay, Selection, Snapshot, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::lock::LockMode::{self, NodeExclusive, NodeShared};
use crate::lock::{AcquireOptions, Grant, Granule, LockError, Rights, Scope, WaiterKind, blocking};
use crate::store::{CommitError, DataStore, Draft, SharedDocument};
use crate::sync::{Mutex, rank};

/// What a draft needs that does not hold the whole document.
pub(in crate::store) struct OnNodes {
    /// Its locks, without the intentions.
    locked: HashMap<Granule, Rights, Secret>,
    /// The ids that were generated for its new nodes.
    own: HashSet<NodeId, Secret>,
    reads: Mutex<{ rank::READS }, ReadSet>,
    /// The version in which its reads and writes were validated last.
    validated: Option<u64>,
    /// The error of a failed lock. The transaction cannot be committed any more.
    failed: Option<LockError>,
    /// How it takes the locks that it needs. `None` if it only notes them.
    locking: Option<NodeLocking>,
    /// What it has from the session that submits it.
    pub(super) session: Option<FromSession>,
}

/// How a draft locks more nodes.
pub(super) struct NodeLocking {
    pub(super) store: DataStore,
    pub(super) grant: Grant,
    pub(super) options: AcquireOptions,
    pub(super) call_site: &'static Location<'static>,
}

/// How a transaction waits after its first request.
#[derive(Clone, Copy)]
pub(in crate::store) struct LaterWaits {
    /// `None`: without limit.
    pub(in crate::store) timeout: Option<Duration>,
    pub(in crate::store) without_combining: bool,
    pub(in crate::store) call_site: &'static Location<'static>,
}

impl OnNodes {
    /// Begins with the locks of a scope, and only notes further ones.
    pub(super) fn new(scope: &Scope) -> Self {
        let mut nodes = Self {
            locked: HashMap::default(),
            own: HashSet::default(),
            reads: Mutex::default(),
            validated: None,
            failed: None,
            locking: None,
            session: None,
        };
        nodes.add_locks(scope);
        nodes
    }

    pub(super) fn locking_by(self, locking: NodeLocking) -> Self {
        Self {
            locking: Some(locking),
            ..self
        }
    }

    /// The grant of its locks.
    pub(in crate::store) fn grant(&self) -> Option<Grant> {
        Some(self.locking.as_ref()?.grant)
    }

    /// How the transaction waits after its first request, if it may wait.
    pub(in crate::store) fn later_waits(&self) -> Option<LaterWaits> {
        let locking = self.locking.as_ref()?;
        Some(LaterWaits {
            timeout: locking.options.limit(locking.store.fifo().timeout()),
            without_combining: locking.options.without_combining,
            call_site: locking.call_site,
        })
    }

    /// Returns how many nodes it has read without a lock.
    pub(in crate::store) fn read_count(&self) -> usize {
        self.reads.lock().len()
    }

    pub(in crate::store) fn note_read_of_selection(&self) {
        self.reads.lock().selection = true;
    }

    fn add_locks(&mut self, scope: &Scope) {
        for (granule, rights) in scope.parts() {
            let locked = self.locked.entry(granule.clone()).or_default();
            *locked = locked.and(*rights);
        }
    }

    /// Whether the granule is locked, by itself or with an ancestor, or visible to this transaction
    /// alone.
    fn covers(&self, overlay: &Overlay, granule: &Granule, rights: Rights) -> bool {
        let has = |granule: &Granule| {
            let locked = self.locked.get(granule);
            locked.is_some_and(|locked| locked.contain(rights))
        };
        let Granule::Node(id) = granule else {
            return has(granule);
        };
        let is_new =
            || self.own.contains(id) || overlay.contains(id) && !overlay.base().contains(id);
        let with_all_below = |above: &NodeId| {
            let locked = self.locked.get(&Granule::Node(above.clone()));
            locked.is_some_and(|locked| locked.extends_below().contain(rights))
        };
        has(granule)
            || is_new()
            || overlay
                .ancestors(id)
                .any(|above| with_all_below(above.id()))
    }
}

impl NodeLocking {
    /// Locks more nodes. Returns the grant of all.
    fn lock_more(&self, missing: &Scope) -> Result<Grant, LockError> {
        let Self {
            store,
            grant,
            options,
            ..
        } = self;
        blocking(store.lock_more_nodes(WaiterKind::Thread, *grant, options, missing))
    }
}

/// The locks for reads of nodes.
fn locks_for_reads(reads: impl Iterator<Item = Granule>, mode: LockMode) -> Scope {
    reads.fold(Scope::new(), |mut scope, read| {
        scope.add(read, mode.into());
        scope
    })
}

impl Draft {
    /// Plans a change and locks what it needs. A plan that changes nothing, and one that fails,
    /// needs what it read, as if it changed that: a later edit may.
    ///
    /// The plan is made again after each wait, because other transactions may have changed what it
    /// read.
    pub(in crate::store) fn plan_on_nodes(&mut self, plan: &dyn Fn(&Self) -> Planned) -> Planned {
        loop {
            let (planned, _) = self.plan_reading(ReadSet::unnoted(), plan);
            let needed = match &planned {
                Ok(Some(change)) => locks_for(change, &self.overlay),
                Ok(None) | Err(_) => {
                    let (_, reads) = self.plan_reading(ReadSet::default(), plan);
                    locks_for_reads(reads.locks(), NodeExclusive)
                }
            };
            if !self.lock_more(&needed)? {
                return planned;
            }
        }
    }

    /// Makes a plan, and notes its reads apart from those of the transaction.
    fn plan_reading(&self, reads: ReadSet, plan: &dyn Fn(&Self) -> Planned) -> (Planned, ReadSet) {
        let swap = |reads| match &self.nodes {
            Some(nodes) => std::mem::replace(&mut *nodes.reads.lock(), reads),
            None => reads,
        };
        let before = swap(reads);
        let planned = plan(self);
        (planned, swap(before))
    }

    /// Notes ids that the store has generated for new nodes of this transaction. They need no lock,
    /// because no other transaction knows them.
    pub(in crate::store) fn owns<'a>(&mut self, ids: impl IntoIterator<Item = &'a NodeId>) {
        if let Some(nodes) = &mut self.nodes {
            nodes.own.extend(ids.into_iter().cloned());
        }
    }

    /// The locks for what it has changed so far, and those that keep its reads unchanged.
    pub(super) fn needed_locks(&self) -> Scope {
        let Some(nodes) = &self.nodes else {
            return Scope::new();
        };
        let reads = nodes.reads.lock();
        let covered = |granule: &_| nodes.covers(&self.overlay, granule, NodeShared.into());
        let mut scope = locks_for_reads(reads.locks().filter(|read| !covered(read)), NodeShared);
        for (granule, rights) in &nodes.locked {
            scope.add(granule.clone(), *rights);
        }
        scope
    }

    /// A draft that is never published, and notes which locks it needs.
    pub(in crate::store) fn without_locks(document: &Arc<SharedDocument>, base: Snapshot) -> Self {
        let mut unlocked = Self::under_no_lock(document, base);
        unlocked.nodes = Some(Box::new(OnNodes::new(&Scope::new())));
        unlocked
    }

    /// Puts a draft that was made without locks in the place of this one, which has no edits yet.
    /// Returns `false`, and does nothing, if any commit came between: checks of a change also
    /// depend on nodes that it does not touch, such as the ancestors of a target.
    pub(crate) fn take_over(&mut self, unlocked: &mut Self) -> bool {
        if self.overlay.base().version() != unlocked.overlay.base().version() {
            return false;
        }
        if let (Some(own), Some(made)) = (self.nodes.take(), &mut unlocked.nodes) {
            (made.locked, made.locking) = (own.locked, own.locking);
        }
        unlocked.id = self.id;
        std::mem::swap(self, unlocked);
        true
    }

    /// What it would have to lock to make the edits of a draft without locks of the same version.
    /// It has no edits yet.
    pub(crate) fn lacks(&self, made: &Self) -> Scope {
        let mut scope = Scope::new();
        let Some(nodes) = &self.nodes else {
            return scope;
        };
        let has_made = |granule: &_| match (granule, &made.nodes) {
            (Granule::Node(id), Some(made)) => made.own.contains(id),
            _ => false,
        };
        let lacks = |granule: &_, rights| {
            !has_made(granule) && !nodes.covers(&self.overlay, granule, rights)
        };
        for change in made.changes() {
            // A node that is divided may have had its children before, or has them afterwards.
            let [before, after] = [&self.overlay, &made.overlay];
            for needed in [locks_for(change, before), locks_for(change, after)] {
                for (granule, rights) in needed.parts() {
                    if lacks(granule, *rights) {
                        scope.add(granule.clone(), *rights);
                    }
                }
            }
        }
        scope
    }

    /// Begins with the selection and the clipboard of a session, in the last version, to which the
    /// draft advances.
    pub(super) fn begin_of_session(&mut self, mut session: FromSession) {
        self.overlay.advance(session.follow(None));
        self.begin_with_selection(session.selection().clone());
        self.share_clipboard(session.clipboard.clone());
        if let Some(nodes) = &mut self.nodes {
            nodes.session = Some(session);
        }
    }

    /// What it has from the session that submits it.
    pub(crate) fn of_session(&self) -> Option<&FromSession> {
        self.nodes.as_ref()?.session.as_ref()
    }

    /// Whether it has another clipboard than the session that submits it had.
    pub(crate) fn has_copied(&self) -> bool {
        self.of_session().is_none_or(|it| !self.keeps_clipboard(it))
    }

    /// Advances to a later version. A selection follows the log, which may be ahead. Returns the
    /// node of a selection that was read before, and has moved.
    fn advance(&mut self, later: Snapshot) -> Option<NodeId> {
        let Self { nodes, overlay, .. } = self;
        let nodes = nodes.as_mut()?;
        let Some(session) = &mut nodes.session else {
            overlay.advance(later);
            return None;
        };
        let before = overlay.selection().cloned();
        let document = session.follow(overlay.selection_mut());
        overlay.advance(document);
        let was_read = nodes.reads.lock().selection;
        let moved = before.filter(|before| was_read && overlay.selection() != Some(before))?;
        Some(match moved {
            Selection::Text(text) => text.focus.node_id,
            Selection::Node(node) => node.node_id,
        })
    }

    /// Moves its selection, which was that of an earlier version, to its own version.
    pub(in crate::store) fn move_selection_from(&mut self, version: u64) {
        let session = self.nodes.as_ref().and_then(|nodes| nodes.session.as_ref());
        if let Some((session, selection)) = session.zip(self.overlay.selection_mut()) {
            session.move_from(version, selection);
        }
    }

    /// Locks what is not locked yet of a scope, and returns whether that was anything.
    fn lock_more(&mut self, scope: &Scope) -> Result<bool, EditError> {
        let Some(nodes) = &mut self.nodes else {
            return Ok(false);
        };
        let overlay = &self.overlay;
        let mut missing = Scope::new();
        for (granule, rights) in scope.parts() {
            if !nodes.covers(overlay, granule, *rights) {
                missing.add(granule.clone(), *rights);
            }
        }
        let Some((first, _)) = missing.parts().first() else {
            return Ok(false);
        };
        let Some(locking) = &mut nodes.locking else {
            nodes.add_locks(&missing);
            return Ok(false);
        };
        if nodes.failed.is_none() {
            match locking.lock_more(&missing) {
                Ok(grant) => locking.grant = grant,
                Err(error) => nodes.failed = Some(error),
            }
        }
        if let Some(error) = &nodes.failed {
            return Err(EditError::NotLocked {
                id: first.node().cloned(),
                transient: error.retry() == Retry::Now,
            });
        }
        // Nodes locked before are unchanged; newly locked nodes must be read as they are now.
        let current = locking.store.snapshot_under(locking.grant);
        nodes.add_locks(&missing);
        let moved = self.advance(current);
        let base = self.overlay.base();
        let locked = missing.nodes().map(|(id, _)| id);
        let Some(nodes) = &self.nodes else {
            return Ok(true);
        };
        let mut reads = nodes.reads.lock();
        if let Some(id) = &moved {
            reads.tear(id);
        }
        match reads.outdated_of(locked, base).next().or(moved.as_ref()) {
            None => Ok(true),
            // Results computed from the old value would be wrong, and could not be committed.
            Some(id) => Err(EditError::Outdated {
                id: id.clone(),
                version: base.version(),
            }),
        }
    }

    /// Runs an operation on nodes. It runs again, from its beginning, as long as others changed
    /// what it has read without a lock (N18). Where it has locked nothing, it locks that first, as
    /// a change does that changes nothing or fails.
    pub(crate) fn run_on_nodes<E: From<EditError>>(
        &mut self,
        run: &dyn Fn(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let (begin, version) = (self.state(), self.base().version());
            let used = self.budget().map(Budget::all_used);
            if let Some(nodes) = &self.nodes {
                nodes.reads.lock().begin();
            }
            let outcome = run(self);
            let Some(outdated) = self.forget_outdated(version) else {
                return outcome;
            };
            self.return_to(&begin);
            if let Some((budget, used)) = self.budget().zip(used) {
                budget.use_again(used);
            }
            self.lock_more(&outdated)?;
        }
    }

    /// Forgets the reads of an operation that began in a version if one of them is outdated.
    /// Returns what it has to lock before it runs again.
    fn forget_outdated(&self, version: u64) -> Option<Scope> {
        let nodes = self.nodes.as_ref()?;
        let has_advanced = self.base().version() != version;
        let may_run = nodes.failed.is_none() && nodes.locking.is_some();
        let current = match has_advanced {
            true => self.base().clone(),
            false => self.document.published.lock().document.clone(),
        };
        let mut reads = nodes.reads.lock();
        let outdated = may_run.then(|| reads.forget_outdated(&current))??;
        Some(match has_advanced {
            true => Scope::new(),
            false => locks_for_reads(outdated.into_iter(), NodeExclusive),
        })
    }

    /// Takes the error of a failed node lock, for the result of the submitter.
    pub(crate) fn take_lock_error(&mut self) -> Option<LockError> {
        self.nodes.as_mut()?.failed.take()
    }

    /// Returns the error of a node lock that the transaction could not take.
    ///
    /// If there is one, the transaction cannot be committed.
    pub fn lock_error(&self) -> Option<&LockError> {
        self.nodes.as_ref()?.failed.as_ref()
    }

    /// Records the read of a node.
    pub(in crate::store) fn note_read(&self, nodes: &OnNodes, id: &NodeId) {
        if let Some(found) = self.overlay.untouched(id) {
            nodes.reads.lock().node(id, found);
        }
    }

    pub(in crate::store) fn note_read_of_root(&self, nodes: &OnNodes) {
        if !self.overlay.sets_root() {
            nodes.reads.lock().root(self.overlay.base().root());
        }
    }

    /// The version of the document that it reads. It must not change before the commit.
    pub(crate) fn version(&self) -> u64 {
        self.note_read_of_all();
        self.overlay.base().version()
    }

    /// Records a read of the whole document.
    pub(in crate::store) fn note_read_of_all(&self) {
        if let Some(nodes) = &self.nodes {
            nodes.reads.lock().all(self.overlay.base().version());
        }
    }

    /// Advances the transaction to the last version, if its reads and writes are unchanged there.
    /// The caller excludes other commits.
    pub(crate) fn validate_reads(&mut self) -> Result<(), CommitError> {
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        if let Some(error) = &nodes.failed {
            return Err(CommitError::NotLocked(Box::new(error.clone())));
        }
        let current: Snapshot = self.document.published.lock().document.clone();
        let version = current.version();
        if nodes.validated == Some(version) {
            return Ok(());
        }
        let conflict = |node| CommitError::Conflict { node, version };
        if let Some(node) = nodes.reads.lock().outdated(&current) {
            return Err(conflict(node));
        }
        if version != self.overlay.base().version() {
            if let Some(id) = self.overlay.overtaken(&current) {
                return Err(conflict(Some(id.clone())));
            }
            if let Some(id) = self.advance(current) {
                return Err(conflict(Some(id)));
            }
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.validated = Some(version);
        }
        Ok(())
    }
}
