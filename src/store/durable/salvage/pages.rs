//! The pages of a redb file, read one by one, without trust in any of them.
//!
//! The form is that of redb's [design], format 3: trees of pages, of which each names its children
//! by their places and checksums. A commit writes new pages, so the pages of earlier commits stay
//! in the file until they are used again. The page that lists the tables is the root of a commit:
//! what is reached from it, and has the right checksums, is what that commit has written.
//!
//! [design]: https://github.com/cberner/redb/blob/master/docs/design.md

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::store::durable::redb::TABLES;

/// The size of a page, which `redb::Builder` has by default. The header has the size of one.
const PAGE: usize = 4096;
/// The size of a region of pages.
const REGION: u64 = 4 << 30;
/// A page has at most 2 to the power of this times that size.
const LARGEST_ORDER: u64 = 20;
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Where the header has its two commits.
const SLOTS: [usize; 2] = [64, 192];

/// The bytes of a file.
pub(super) struct Image {
    bytes: Vec<u8>,
    /// How many bytes the disk did not return.
    pub(super) unreadable: u64,
}

/// A page, as its parent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageLink {
    number: u64,
    checksum: u128,
}

/// A table, as the root of a commit has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TableRoot {
    root: Option<PageLink>,
    /// How many entries it has.
    pub(super) len: u64,
    /// The size of each key, if all have the same.
    key_size: Option<usize>,
}

/// The tables of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) entries: TableRoot,
    pub(super) blocks: TableRoot,
}

/// An entry of a table.
#[derive(Clone, Copy)]
pub(super) struct PageEntry<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// Whether all checksums from the root to its page are right. Otherwise it may be of another
    /// commit.
    pub(super) is_proven: bool,
}

/// The places of an entry in a page.
type Places = (Range<usize>, Range<usize>);

impl Image {
    /// Reads a file. Parts that the disk does not return count as zeros.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let (mut bytes, mut unreadable) = (Vec::new(), 0);
        bytes.try_reserve_exact(len).map_err(io::Error::other)?;
        while bytes.len() < len {
            let at = bytes.len();
            for size in [256 * PAGE, PAGE] {
                bytes.resize(at + size.min(len - at), 0);
                let read = file.seek(SeekFrom::Start(at as u64));
                if read.and_then(|_| file.read_exact(&mut bytes[at..])).is_ok() {
                    break;
                }
                if size == PAGE {
                    bytes[at..].fill(0);
                    unreadable += (bytes.len() - at) as u64;
                } else {
                    bytes.truncate(at);
                }
            }
        }
        Ok(Self { bytes, unreadable })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The commits that can be found: those of the header first, the newest before the others.
    pub(super) fn commits(&self) -> Vec<Commit> {
        let mut slots: Vec<(u64, PageLink)> =
            SLOTS.iter().filter_map(|at| self.slot(*at)).collect();
        slots.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let in_header = slots.iter().filter_map(|(_, root)| {
            let page = self.page(root.number)?;
            (checksum_of(page, None) == Some(root.checksum)).then(|| commit(page))?
        });
        let pages = self.bytes.chunks_exact(PAGE).skip(1);
        let mut seen = HashSet::new();
        in_header
            .chain(pages.filter_map(commit))
            .filter(|commit| seen.insert(*commit))
            .collect()
    }

    /// The number of a commit in the header, and the root of its list of tables.
    fn slot(&self, at: usize) -> Option<(u64, PageLink)> {
        let slot = self.bytes.get(at..at + 128)?;
        let is_right = u128_at(slot, 112)? == xxh3_128(&slot[..112]);
        let root = PageLink::at(slot, 8)?;
        (is_right && slot[1] == 1).then_some((u64_at(slot, 104)?, root))
    }

    fn page(&self, number: u64) -> Option<&[u8]> {
        let order = number >> 59;
        if order > LARGEST_ORDER {
            return None;
        }
        let size = (PAGE as u64) << order;
        let (index, region) = (number & (0xF_FFFF >> order), number >> 20 & 0xF_FFFF);
        // After the header.
        let start = PAGE as u64 + region * REGION + index * size;
        let places = usize::try_from(start).ok()?..usize::try_from(start + size).ok()?;
        self.bytes.get(places)
    }

    /// Passes on all entries of a table that can be read. Returns whether all of its pages have the
    /// right checksums.
    pub(super) fn entries<'a>(
        &'a self,
        table: &TableRoot,
        mut found: impl FnMut(PageEntry<'a>),
    ) -> bool {
        let mut is_whole = true;
        let mut ahead: Vec<(PageLink, bool)> =
            table.root.map(|root| (root, true)).into_iter().collect();
        // Damaged pages could name each other. In a tree no byte is of two pages.
        let mut left = self.bytes.len();
        while let Some((link, is_proven)) = ahead.pop() {
            let Some(page) = self.page(link.number).filter(|page| page.len() <= left) else {
                is_whole = false;
                continue;
            };
            left -= page.len();
            let is_right = checksum_of(page, table.key_size) == Some(link.checksum);
            is_whole &= is_right;
            let is_proven = is_proven && is_right;
            match page[0] {
                LEAF => {
                    for (key, value) in leaf(page, table.key_size).into_iter().flatten() {
                        let parts = page.get(key).zip(page.get(value));
                        if let Some((key, value)) = parts {
                            found(PageEntry {
                                key,
                                value,
                                is_proven,
                            });
                        }
                    }
                }
                // The first child last, so it is read first.
                BRANCH => ahead.extend(children(page).rev().map(|child| (child, is_proven))),
                _ => {}
            }
        }
        is_whole
    }
}

impl PageLink {
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            number: u64_at(bytes, at)?,
            checksum: u128_at(bytes, at + 8)?,
        })
    }
}

/// The tables that a page lists, if they are those of a document.
fn commit(page: &[u8]) -> Option<Commit> {
    if page[0] != LEAF || count(page) != TABLES.len() {
        return None;
    }
    let mut tables = leaf(page, None)?.zip(TABLES).map(|((key, value), name)| {
        let is_ours = page.get(key)? == name.as_bytes();
        is_ours.then(|| table(page.get(value)?))?
    });
    let (blocks, entries) = (tables.next()??, tables.next()??);
    Some(Commit { entries, blocks })
}

/// What the list of tables has of one.
fn table(definition: &[u8]) -> Option<TableRoot> {
    let root = PageLink::at(definition, 10)?;
    let key_size = u32_at(definition, 43)? as usize;
    Some(TableRoot {
        len: u64_at(definition, 1)?,
        root: (definition[9] != 0).then_some(root),
        key_size: (definition[42] != 0).then_some(key_size),
    })
}

/// The number of entries of a leaf, or of keys of a branch.
fn count(page: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([page[2], page[3]]))
}

/// The places of all entries of a leaf, which may be beyond the page. Values have any size.
fn leaf(page: &[u8], key_size: Option<usize>) -> Option<impl Iterator<Item = Places>> {
    let count = count(page);
    let ends = |first: usize, nth: usize| u32_at(page, first + 4 * nth).map(|end| end as usize);
    let first_value_end = 4 + if key_size.is_none() { 4 * count } else { 0 };
    let first_key = first_value_end + 4 * count;
    let key_end = move |nth: usize| match key_size {
        Some(size) => size.checked_mul(nth + 1)?.checked_add(first_key),
        None => ends(4, nth),
    };
    let value_end = move |nth: usize| ends(first_value_end, nth);
    let first_value = key_end(count.checked_sub(1)?)?;
    let before = |nth: usize| nth.checked_sub(1);
    Some((0..count).filter_map(move |nth| {
        let key = before(nth).map_or(Some(first_key), key_end)?..key_end(nth)?;
        let value = before(nth).map_or(Some(first_value), value_end)?..value_end(nth)?;
        Some((key, value))
    }))
}

/// The children of a branch.
fn children(page: &[u8]) -> impl DoubleEndedIterator<Item = PageLink> {
    let count = count(page) + 1;
    (0..count).filter_map(move |nth| {
        Some(PageLink {
            checksum: u128_at(page, 8 + 16 * nth)?,
            number: u64_at(page, 8 + 16 * count + 8 * nth)?,
        })
    })
}

/// The checksum of the used part of a page. `None` if the page has no such part.
fn checksum_of(page: &[u8], key_size: Option<usize>) -> Option<u128> {
    let last = count(page).checked_sub(1)?;
    let end = match page[0] {
        LEAF => leaf(page, key_size)?.nth(last)?.1.end,
        BRANCH => {
            let ends = 8 + 24 * (last + 2);
            match key_size {
                Some(size) => size.checked_mul(last + 1)?.checked_add(ends)?,
                None => u32_at(page, ends + 4 * last)? as usize,
            }
        }
        _ => return None,
    };
    page.get(..end).map(xxh3_128)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    array_at(bytes, at).map(u128::from_le_bytes)
}
