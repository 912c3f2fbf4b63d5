//! The table of all nodes of one version.
//!
//! Generated ids count up, so their nodes are stored in pages of neighbours, and only the pages are
//! hashed. Compared with one hash entry per node, this halves the memory of a million nodes, and
//! keeps neighbours in a document close in memory. A page is a tree of three levels: beside a new
//! snapshot, a commit copies three branches of 16 pointers (crates/bench/LOG.md, "The table of
//! nodes"). Custom ids are hashed one by one. An empty branch is dropped, so deleted ids take no
//! memory.

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

/// How many ids of neighbours are in one page.
const PAGE: u64 = <Page as Tree>::SPAN as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    session: u32,
    page: u64,
}

type Page = Branch<Branch<Branch<Node>>>;

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
                self.pages.get(&key)?.get(slot)
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
                Arc::make_mut(page).insert(slot, node)
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
                page.and_then(|page| Arc::make_mut(page).get_mut(slot))
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
        let removed = page.remove(slot)?;
        if page.is_empty() {
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
        key.page * PAGE + page.last().unwrap_or(0) as u64
    }

    /// All nodes, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Node>> {
        let paged = self.pages.values().flat_map(|page| page.iter());
        paged.chain(self.custom.values())
    }
}

/// A node of a tree of nodes. A change copies one branch of each level, if another version has it.
#[derive(Clone, Debug)]
struct Branch<T>([Option<Arc<T>>; WIDTH]);

/// More would copy more pointers, fewer would make the tree deeper.
const WIDTH: usize = 16;

/// Nodes by their places, from zero to `SPAN`, exclusive.
trait Tree: Default {
    const SPAN: usize;

    fn get(&self, place: usize) -> Option<&Arc<Node>>;

    /// As [`get`](Self::get). Copies what another version has.
    fn get_mut(&mut self, place: usize) -> Option<&mut Arc<Node>>;

    fn insert(&mut self, place: usize, node: Arc<Node>) -> Option<Arc<Node>>;

    /// Removes a node, with each branch that is empty then.
    fn remove(&mut self, place: usize) -> Option<Arc<Node>>;

    /// The last place that has a node.
    fn last(&self) -> Option<usize>;

    fn iter(&self) -> impl Iterator<Item = &Arc<Node>>;

    fn is_empty(&self) -> bool {
        self.last().is_none()
    }
}

impl<T> Default for Branch<T> {
    fn default() -> Self {
        Self([const { None }; WIDTH])
    }
}

impl Tree for Branch<Node> {
    const SPAN: usize = WIDTH;

    fn get(&self, place: usize) -> Option<&Arc<Node>> {
        self.0[place].as_ref()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Arc<Node>> {
        self.0[place].as_mut()
    }

    fn insert(&mut self, place: usize, node: Arc<Node>) -> Option<Arc<Node>> {
        self.0[place].replace(node)
    }

    fn remove(&mut self, place: usize) -> Option<Arc<Node>> {
        self.0[place].take()
    }

    fn last(&self) -> Option<usize> {
        self.0.iter().rposition(Option::is_some)
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.0.iter().flatten()
    }
}

impl<T: Tree + Clone> Tree for Branch<T> {
    const SPAN: usize = WIDTH * T::SPAN;

    #[inline]
    fn get(&self, place: usize) -> Option<&Arc<Node>> {
        self.0[place / T::SPAN].as_ref()?.get(place % T::SPAN)
    }

    #[inline]
    fn get_mut(&mut self, place: usize) -> Option<&mut Arc<Node>> {
        let part = self.0[place / T::SPAN].as_mut()?;
        Arc::make_mut(part).get_mut(place % T::SPAN)
    }

    fn insert(&mut self, place: usize, node: Arc<Node>) -> Option<Arc<Node>> {
        let part = self.0[place / T::SPAN].get_or_insert_default();
        Arc::make_mut(part).insert(place % T::SPAN, node)
    }

    fn remove(&mut self, place: usize) -> Option<Arc<Node>> {
        let slot = &mut self.0[place / T::SPAN];
        let part = Arc::make_mut(slot.as_mut()?);
        let removed = part.remove(place % T::SPAN);
        if part.is_empty() {
            *slot = None;
        }
        removed
    }

    fn last(&self) -> Option<usize> {
        let slot = self.0.iter().rposition(Option::is_some)?;
        Some(slot * T::SPAN + self.0[slot].as_ref()?.last()?)
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.0.iter().flatten().flat_map(|part| part.iter())
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
