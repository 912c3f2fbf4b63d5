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

/// The size of a page, which `redb::Builder` has by default. The header has the size of one.
pub const PAGE: usize = 4096;
/// The size of a region of pages.
const REGION: u64 = 4 << 30;
/// A page has at most 2 to the power of this times that size.
const LARGEST_ORDER: u64 = 20;
pub const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Where the header has its two commits.
const SLOTS: [usize; 2] = [64, 192];
/// Where the header says which of them is the newest, and whether the file was closed.
const FLAGS: usize = 9;

/// The bytes of a file.
pub struct Image {
    bytes: Vec<u8>,
    /// How many bytes the disk did not return.
    pub unreadable: u64,
}

/// A page, as its parent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageLink {
    pub number: u64,
    pub checksum: u128,
}

/// A table, as the root of a commit has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRoot {
    pub root: Option<PageLink>,
    /// How many entries it has.
    pub len: u64,
    /// The size of each key, if all have the same.
    pub key_size: Option<usize>,
}

/// The tables of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    pub entries: TableRoot,
    pub blocks: TableRoot,
}

/// An entry of a table.
#[derive(Clone, Copy)]
pub struct PageEntry<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Whether all checksums from the root to its page are right. Otherwise it may be of another
    /// commit.
    pub is_proven: bool,
}

/// The places of an entry in a page.
type Places = (Range<usize>, Range<usize>);

impl Image {
    /// Reads a file. Parts that the disk does not return count as zeros.
    pub fn read(path: &Path) -> io::Result<Self> {
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

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The commits that can be found, of tables with these names: those of the header first, the
    /// newest before the others.
    pub fn commits(&self, names: [&str; 2]) -> Vec<Commit> {
        let slots = SLOTS.iter().filter_map(|at| slot(&self.bytes, *at));
        let mut slots: Vec<Slot> = slots.collect();
        slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.number));
        let in_header = slots.iter().filter_map(|slot| {
            let root = slot.roots[0]?;
            let page = self.page(root.number)?;
            let is_right = checksum_of(page, None) == Some(root.checksum);
            is_right.then(|| commit(page, names))?
        });
        let pages = self.bytes.chunks_exact(PAGE).skip(1);
        let mut seen = HashSet::new();
        in_header
            .chain(pages.filter_map(|page| commit(page, names)))
            .filter(|commit| seen.insert(*commit))
            .collect()
    }

    fn page(&self, number: u64) -> Option<&[u8]> {
        let Range { start, end } = place(number)?;
        let places = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
        self.bytes.get(places)
    }

    /// Passes on all entries of a table that can be read. Returns whether all of its pages have the
    /// right checksums.
    pub fn entries<'a>(&'a self, table: &TableRoot, mut found: impl FnMut(PageEntry<'a>)) -> bool {
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

/// A commit in the header.
#[derive(Clone, Copy)]
struct Slot {
    number: u64,
    /// The roots of its list of tables, and of that of the tables of redb itself.
    roots: [Option<PageLink>; 2],
}

/// A commit in the header, if its own checksum is right.
fn slot(header: &[u8], at: usize) -> Option<Slot> {
    let slot = header.get(at..at + 128)?;
    let is_right = u128_at(slot, 112)? == xxh3_128(&slot[..112]);
    let root = |is_there: usize, at: usize| match slot[is_there] {
        1 => PageLink::at(slot, at),
        _ => None,
    };
    let roots = [root(1, 8), root(2, 40)];
    let number = u64_at(slot, 104)?;
    is_right.then_some(Slot { number, roots })
}

/// The commit that the header names as the newest one, and the one before it.
fn newest_two(header: &[u8]) -> [Option<Slot>; 2] {
    let nth = usize::from(header.get(FLAGS).copied().unwrap_or_default() & 1);
    [nth, 1 - nth].map(|nth| slot(header, SLOTS[nth]))
}

/// The root of the list of tables of the newest commit.
pub fn newest(header: &[u8]) -> Option<PageLink> {
    newest_two(header)[0]?.roots[0]
}

/// Whether no power cut has torn the newest commit. `read` reads a page and compares its checksum.
///
/// It is whole if it was synced before the header named it: that of a file that was closed was.
/// Otherwise all pages are read that it has and the commit before has not. That one was synced
/// before any of them was written.
pub fn is_whole(
    header: &[u8],
    mut read: impl FnMut(PageLink, Option<usize>) -> Option<Vec<u8>>,
) -> bool {
    const SYNCED_FIRST: u8 = 4;
    const IS_NOT_SYNCED: u8 = 8;
    let flags = header.get(FLAGS).copied().unwrap_or_default();
    match (flags & IS_NOT_SYNCED, flags & SYNCED_FIRST) {
        (0, 0) => new_pages_are_right(header, &mut read).is_some(),
        (0, _) => true,
        _ => false,
    }
}

type ReadPage<'a> = &'a mut dyn FnMut(PageLink, Option<usize>) -> Option<Vec<u8>>;

/// Reads the pages that only the newest commit has. `None` if one is not right.
fn new_pages_are_right(header: &[u8], read: ReadPage<'_>) -> Option<()> {
    let [new, old] = newest_two(header);
    let (new, old) = (new?, old?);
    if new.number <= old.number {
        return None;
    }
    for (new, old) in new.roots.into_iter().zip(old.roots) {
        let Some(new) = new.filter(|_| new != old) else {
            continue;
        };
        let page = read(new, None)?;
        let before = old.and_then(|old| read(old, None)).unwrap_or_default();
        let before = definitions(&before).unwrap_or_default();
        for (name, definition) in definitions(&page).filter(|_| page[0] == LEAF)? {
            let old = before.iter().find(|(before, _)| *before == name);
            let old = old.and_then(|(_, definition)| table(definition)?.root);
            let new = Some(definition).filter(|it| is_plain(it)).and_then(table)?;
            if let Some(root) = new.root {
                new_pages_of_tree(root, old, new.key_size, read)?;
            }
        }
    }
    Some(())
}

fn new_pages_of_tree(
    new: PageLink,
    old: Option<PageLink>,
    key_size: Option<usize>,
    read: ReadPage<'_>,
) -> Option<()> {
    let is_branch = |page: &Vec<u8>| page[0] == BRANCH;
    let (mut level, mut replaced) = (vec![new], Vec::from_iter(old));
    let mut known: HashSet<PageLink> = old.into_iter().collect();
    // Level by level: what a tree shares with the one before has mostly the same depth in both.
    while !level.is_empty() {
        let shared: HashSet<PageLink> = level.iter().copied().collect();
        let mut below = Vec::new();
        for link in level.iter().filter(|link| !known.contains(*link)) {
            let page = read(*link, key_size)?;
            if is_branch(&page) {
                below.extend(children(&page));
            }
        }
        replaced.retain(|link| !shared.contains(link));
        let pages = replaced.iter().filter_map(|link| read(*link, key_size));
        let pages: Vec<_> = pages.filter(is_branch).collect();
        replaced = pages.iter().flat_map(|page| children(page)).collect();
        known.extend(&replaced);
        level = below;
    }
    Some(())
}

/// Where a page is in the file.
pub fn place(number: u64) -> Option<Range<u64>> {
    let order = number >> 59;
    if order > LARGEST_ORDER {
        return None;
    }
    let size = (PAGE as u64) << order;
    let (index, region) = (number & (0xF_FFFF >> order), number >> 20 & 0xF_FFFF);
    // After the header.
    let start = PAGE as u64 + region * REGION + index * size;
    Some(start..start + size)
}

/// The tables that a page lists, if they have these names.
pub fn commit(page: &[u8], names: [&str; 2]) -> Option<Commit> {
    if page[0] != LEAF || count(page) != names.len() {
        return None;
    }
    let [blocks, entries] = definitions(page)?.try_into().ok()?;
    let table_of = |(name, definition): (&[u8], &[u8]), own: &str| {
        let is_ours = name == own.as_bytes();
        is_ours.then(|| table(definition))?
    };
    let blocks = table_of(blocks, names[0])?;
    let entries = table_of(entries, names[1])?;
    Some(Commit { entries, blocks })
}

/// The tables that a page lists: their names and definitions.
fn definitions(page: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let places = leaf(page, None)?;
    let parts = places.map(|(name, definition)| page.get(name).zip(page.get(definition)));
    parts.collect()
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

/// Whether a table has one value for each key, of any size, as [`leaf`] reads them.
fn is_plain(definition: &[u8]) -> bool {
    const NORMAL: u8 = 3;
    definition.first() == Some(&NORMAL) && definition.get(47) == Some(&0)
}

/// The number of entries of a leaf, or of keys of a branch.
fn count(page: &[u8]) -> usize {
    array_at(page, 2).map_or(0, |count| usize::from(u16::from_le_bytes(count)))
}

/// The places of all entries of a leaf, which may be beyond the page. Values have any size.
pub fn leaf(page: &[u8], key_size: Option<usize>) -> Option<impl Iterator<Item = Places>> {
    let count = count(page);
    let first_value_end = 4 + if key_size.is_none() { 4 * count } else { 0 };
    let first_key = first_value_end + 4 * count;
    let key_end = move |nth: usize| part_end(page, key_size, (4, first_key), nth);
    let value_end = move |nth: usize| part_end(page, None, (first_value_end, 0), nth);
    let first_value = key_end(count.checked_sub(1)?)?;
    let before = |nth: usize| nth.checked_sub(1);
    Some((0..count).filter_map(move |nth| {
        let key = before(nth).map_or(Some(first_key), key_end)?..key_end(nth)?;
        let value = before(nth).map_or(Some(first_value), value_end)?..value_end(nth)?;
        Some((key, value))
    }))
}

/// The children of a branch.
pub fn children(page: &[u8]) -> impl DoubleEndedIterator<Item = PageLink> {
    let count = count(page) + 1;
    (0..count).filter_map(move |nth| {
        Some(PageLink {
            checksum: u128_at(page, 8 + 16 * nth)?,
            number: u64_at(page, 8 + 16 * count + 8 * nth)?,
        })
    })
}

/// The places of the keys of a branch, which may be beyond the page. No key of a child is greater
/// than the key of the same index, and all of the next child are.
pub fn separators(page: &[u8], key_size: Option<usize>) -> impl Iterator<Item = Range<usize>> {
    let count = count(page);
    let ends = 8 + 24 * (count + 1);
    let first = ends + if key_size.is_none() { 4 * count } else { 0 };
    let end = move |nth: usize| part_end(page, key_size, (ends, first), nth);
    (0..count).filter_map(move |nth| {
        let start = nth.checked_sub(1).map_or(Some(first), end)?;
        Some(start..end(nth)?)
    })
}

/// Where a key or a value ends: the parts of one size begin at the second place, and the ends of
/// those of any size are listed from the first one on.
fn part_end(
    page: &[u8],
    size: Option<usize>,
    (ends, first): (usize, usize),
    nth: usize,
) -> Option<usize> {
    match size {
        Some(size) => size.checked_mul(nth + 1)?.checked_add(first),
        None => u32_at(page, ends + 4 * nth).map(|end| end as usize),
    }
}

/// The checksum of the used part of a page. `None` if the page has no such part.
pub fn checksum_of(page: &[u8], key_size: Option<usize>) -> Option<u128> {
    let last = count(page).checked_sub(1)?;
    let end = match page[0] {
        LEAF => leaf(page, key_size)?.nth(last)?.1.end,
        BRANCH => separators(page, key_size).nth(last)?.end,
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
