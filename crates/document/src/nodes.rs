//! The table of all nodes of one version.
//!
//! Generated ids count up, so their nodes are stored in pages of neighbours, and only the pages are
//! hashed. Compared with one hash entry per node, this halves the memory of a million nodes. It
//! keeps neighbours in a document close in memory, and reduces what a commit copies while a
//! snapshot lives (crates/bench/LOG.md, "The table of nodes"). Custom ids are hashed one by one.
//! An empty page is dropped, so deleted ids take no memory.

use std::sync::Arc;

use super::Node;
use crate::hashing::Secret;
use crate::id::{NodeId, Repr};
use crate::steps::step;

/// Nodes by id. A clone costs O(1) and shares structure.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    pages: im::HashMap<PageKey, Arc<Page>, Secret>,
    custom: im::HashMap<NodeId, Arc<Node>, Secret>,
    len: usize,
}

const PAGE: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    session: u32,
    page: u64,
}

#[derive(Clone, Debug, Default)]
struct Page {
    slots: [Option<Arc<Node>>; PAGE as usize],
    used: usize,
}

impl PageKey {
    fn locate(session: u32, counter: u64) -> (Self, usize) {
        let page = counter / PAGE;
        (Self { session, page }, (counter % PAGE) as usize)
    }
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, id: &NodeId) -> Option<&Arc<Node>> {
        step();
        match &id.0 {
            Repr::Generated { session, counter } => {
                let (key, slot) = PageKey::locate(*session, *counter);
                self.pages.get(&key)?.slots[slot].as_ref()
            }
            Repr::Short(_) | Repr::Long(_) => self.custom.get(id),
        }
    }

    pub(super) fn insert(&mut self, node: Arc<Node>) {
        let before = match &node.id.0 {
            Repr::Generated { session, counter } => {
                let (key, slot) = PageKey::locate(*session, *counter);
                let page = match self.pages.get_mut(&key) {
                    Some(page) => page,
                    None => self.pages.entry(key).or_default(),
                };
                let page = Arc::make_mut(page);
                let before = page.slots[slot].replace(node);
                page.used += usize::from(before.is_none());
                before
            }
            Repr::Short(_) | Repr::Long(_) => match self.custom.get_mut(&node.id) {
                Some(place) => Some(std::mem::replace(place, node)),
                None => self.custom.insert(node.id.clone(), node),
            },
        };
        self.len += usize::from(before.is_none());
    }

    /// Changes a node that is there, in place if no other version has it.
    pub(super) fn change(&mut self, id: &NodeId, change: impl FnOnce(&mut Node)) {
        let node = match &id.0 {
            Repr::Generated { session, counter } => {
                let (key, slot) = PageKey::locate(*session, *counter);
                let page = self.pages.get_mut(&key);
                page.and_then(|page| Arc::make_mut(page).slots[slot].as_mut())
            }
            Repr::Short(_) | Repr::Long(_) => self.custom.get_mut(id),
        };
        change(Arc::make_mut(node.expect("it is there")));
    }

    pub(super) fn remove(&mut self, id: &NodeId) {
        let removed = match &id.0 {
            Repr::Generated { session, counter } => {
                let (key, slot) = PageKey::locate(*session, *counter);
                self.remove_from_page(key, slot)
            }
            Repr::Short(_) | Repr::Long(_) => self.custom.remove(id),
        };
        self.len -= usize::from(removed.is_some());
    }

    fn remove_from_page(&mut self, key: PageKey, slot: usize) -> Option<Arc<Node>> {
        let page = Arc::make_mut(self.pages.get_mut(&key)?);
        let removed = page.slots[slot].take()?;
        page.used -= 1;
        if page.used == 0 {
            self.pages.remove(&key);
        }
        Some(removed)
    }

    /// The largest number of a generated id of this session; zero without one. Looks at the pages,
    /// and at the nodes of one.
    pub(super) fn last_of(&self, session: u32) -> u64 {
        let pages = self.pages.iter().filter(|(key, _)| key.session == session);
        let Some((key, page)) = pages.max_by_key(|(key, _)| key.page) else {
            return 0;
        };
        let slot = page.slots.iter().rposition(Option::is_some);
        key.page * PAGE + slot.unwrap_or(0) as u64
    }

    /// All nodes, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Node>> {
        let paged = self
            .pages
            .values()
            .flat_map(|page| page.slots.iter().flatten());
        paged.chain(self.custom.values())
    }
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && self.iter().all(|node| {
                let twin = other.get(&node.id);
                twin.is_some_and(|twin| Arc::ptr_eq(twin, node) || twin == node)
            })
    }
}
