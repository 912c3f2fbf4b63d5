//! Truncated and damaged files: the open finds the document, or refuses and changes no byte.

use doclock::durable::OpenError;

use super::disk::{Disk, Found, found};
use crate::common::seed;

/// How many opens of damaged disks had each outcome.
#[derive(Debug, Default)]
struct Outcomes {
    same: usize,
    before: usize,
    refused: usize,
}

impl Outcomes {
    /// Opens a damaged disk.
    fn open(&mut self, found: &Found, damaged: &[u8], what: &str) {
        let what = || format!("{}: {what}", found.name);
        let disk = Disk::with(damaged.to_vec());
        match disk.open() {
            Ok(store) if store.snapshot() == found.document => self.same += 1,
            Ok(store) => {
                assert_eq!(Some(store.snapshot()), found.before, "{}", what());
                self.before += 1;
            }
            Err(error) => {
                let expected = matches!(error, OpenError::Corrupt(_) | OpenError::Foreign);
                assert!(expected, "{}: {error}", what());
                assert!(disk.bytes() == damaged, "{}: the file has changed", what());
                self.refused += 1;
            }
        }
    }

    fn check(&self, found: &Found) {
        println!("{}: {self:?}", found.name);
        let seen = self.refused + self.before;
        assert!(seen > 100, "{}: {self:?}", found.name);
    }
}

/// Numbers below a bound.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed | 1;
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % bound
    }
}

#[test]
fn durable_06_a_flipped_bit_anywhere_is_refused_or_meets_nothing() {
    let mut random = random(seed());
    for found in found() {
        let len = found.bytes.len();
        let mut bytes: Vec<usize> = (0..len).collect();
        if cfg!(debug_assertions) {
            // The header, and a sample.
            bytes = (0..320).chain((0..400).map(|_| random(len))).collect();
        }
        let mut outcomes = Outcomes::default();
        for at in bytes {
            let bit = random(8);
            let mut damaged = found.bytes.clone();
            damaged[at] ^= 1 << bit;
            let what = format!("bit {bit} of byte {at}");
            outcomes.open(&found, &damaged, &what);
        }
        outcomes.check(&found);
    }
}

#[test]
fn durable_06_a_file_truncated_anywhere_is_refused_or_has_lost_nothing() {
    let mut random = random(seed());
    for found in found() {
        let len = found.bytes.len();
        let pages = (1..len / 4096).map(|page| 4096 * page);
        let lens = pages
            .chain(1..330)
            .chain((0..100).map(|_| 1 + random(len - 1)));
        let mut outcomes = Outcomes::default();
        for len in lens.chain([len - 1]) {
            let what = format!("{len} bytes");
            outcomes.open(&found, &found.bytes[..len], &what);
        }
        outcomes.check(&found);
    }
}
