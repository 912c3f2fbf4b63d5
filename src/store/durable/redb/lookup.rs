//! Single entries of a file, before redb has checked its pages.
//!
//! redb trusts the pages that it looks a key up in, so a damaged one could hide a node. Here each
//! page on the way is compared with the checksum that its parent has of it.

use std::ops::ControlFlow;

use doclock_common::pages::{
    Commit, LEAF, PAGE, PageLink, TableRoot, checksum_of, children, commit, is_whole, leaf, newest,
    place, separators,
};
use redb::StorageBackend;

use super::{HeldStorage, TABLES, failed};
use crate::steps::step;
use crate::store::durable::{JournalError, OpenError, StoredPart};

/// The pages of a file that no commit changes meanwhile.
pub(in crate::store::durable) struct FilePages<'a>(pub(super) &'a HeldStorage);

impl FilePages<'_> {
    /// Whether the newest commit is one of a document, and no power cut has torn it. A large one is
    /// left to the check of all pages.
    pub(in crate::store::durable) fn are_whole(&self) -> bool {
        let mut left = 8 << 20;
        let page = |link, key_size| self.page(link, key_size, &mut left).ok();
        let header = self.read(0, PAGE);
        header.is_ok_and(|header| is_whole(&header, page)) && self.tables().is_ok()
    }

    /// Passes on the entry of this key, if there is one, then each block of a greater number.
    pub(in crate::store::durable) fn load_after(
        &self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let tables = self.tables()?;
        let is_before = |found: &[u8]| found < key.as_bytes();
        self.entries(&tables.entries, is_before, |found, bytes| {
            if found == key.as_bytes() {
                part(StoredPart::Entry { key, bytes })?;
            }
            Ok(ControlFlow::Break(()))
        })?;
        let number = |key: &[u8]| key.try_into().map_or(0, u64::from_le_bytes);
        let is_before = |key: &[u8]| number(key) <= block;
        self.entries(&tables.blocks, is_before, |key, bytes| {
            let number = number(key);
            part(StoredPart::Block { number, bytes })?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The tables of the newest commit.
    fn tables(&self) -> Result<Commit, JournalError> {
        let root = newest(&self.read(0, PAGE)?);
        let root = root.ok_or_else(|| JournalError::corrupt("the header is damaged"))?;
        let page = self.page(root, None, &mut self.0.len()?)?;
        commit(&page, TABLES).ok_or_else(|| JournalError::corrupt("the list of tables is damaged"))
    }

    /// Passes on the entries of a table in order, from the first that is not before what is looked
    /// for until `found` breaks. Reads the pages on the way there, and those of the entries.
    fn entries(
        &self,
        table: &TableRoot,
        is_before: impl Fn(&[u8]) -> bool,
        mut found: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, JournalError>,
    ) -> Result<(), JournalError> {
        let mut ahead: Vec<PageLink> = table.root.into_iter().collect();
        // Forged pages could name each other. In a tree no byte is of two pages.
        let mut left = self.0.len()?;
        while let Some(link) = ahead.pop() {
            let page = self.page(link, table.key_size, &mut left)?;
            if page[0] == LEAF {
                for (key, value) in leaf(&page, table.key_size).into_iter().flatten() {
                    let parts = page.get(key).zip(page.get(value));
                    let (key, value) = parts.ok_or_else(|| damaged(link))?;
                    if !is_before(key) && found(key, value)?.is_break() {
                        return Ok(());
                    }
                }
                continue;
            }
            let keys = separators(&page, table.key_size).map(|key| page.get(key));
            let left_out = keys.take_while(|key| key.is_some_and(&is_before)).count();
            let mut children: Vec<PageLink> = children(&page).skip(left_out).collect();
            // The first one last, so it is read first.
            children.reverse();
            ahead.append(&mut children);
        }
        Ok(())
    }

    /// Reads a page, if so many bytes are left.
    fn page(
        &self,
        link: PageLink,
        key_size: Option<usize>,
        left: &mut u64,
    ) -> Result<Vec<u8>, JournalError> {
        step();
        let place = place(link.number).ok_or_else(|| damaged(link))?;
        let size = place.end - place.start;
        *left = left.checked_sub(size).ok_or_else(|| damaged(link))?;
        let page = self.read(place.start, size as usize)?;
        match checksum_of(&page, key_size) == Some(link.checksum) {
            true => Ok(page),
            false => Err(damaged(link)),
        }
    }

    fn read(&self, start: u64, size: usize) -> Result<Vec<u8>, JournalError> {
        let mut bytes = vec![0; size];
        let read = self.0.read(start, &mut bytes);
        read.map_err(|error| failed(redb::Error::Io(error)))?;
        Ok(bytes)
    }
}

fn damaged(link: PageLink) -> JournalError {
    let at = place(link.number).map_or(u64::MAX, |place| place.start);
    JournalError::corrupt(format_args!("the page at byte {at} is damaged"))
}

/// A check that does nothing but report its progress.
pub(in crate::store::durable) fn reporting(
    progress: impl Fn(f64),
) -> impl Fn(FilePages<'_>, f64) -> Result<(), OpenError> {
    move |_, part| {
        progress(part);
        Ok(())
    }
}
