//! The stored form of heads, nodes and records: a byte for the format, a checksum, and JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::JournalError;
use crate::document::DocumentHead;

/// The number of the form. Another form has another number.
pub(super) const FORMAT: u8 = 1;

/// The head of a stored document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StoredHead {
    /// How often the document was opened.
    pub(super) opens: u64,
    /// The session of the first open. Later opens count from it.
    pub(super) first_session: u32,
    /// The document of the checkpoint, without its nodes.
    pub(super) document: DocumentHead,
}

impl StoredHead {
    /// Counts one more open, and returns its session: a new one, of which no node has an id.
    pub(super) fn count_open(&mut self, has_nodes: impl Fn(u32) -> bool) -> u32 {
        // Odd, so 2³² opens have different sessions; large, so other stores of the process, whose
        // sessions are consecutive, have others.
        const STEP: u32 = 0x9E37_79B9;
        loop {
            self.opens += 1;
            let steps = STEP.wrapping_mul(self.opens as u32);
            let session = self.first_session.wrapping_add(steps);
            if session != 0 && !has_nodes(session) {
                return session;
            }
        }
    }
}

/// Why stored bytes cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// They have a later format.
    Newer(u8),
    Corrupt(JournalError),
}

fn checksum(format: u8, json: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[format]);
    hasher.update(json);
    hasher.finalize().to_le_bytes()
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, JournalError> {
    let mut bytes = vec![FORMAT, 0, 0, 0, 0];
    serde_json::to_writer(&mut bytes, value).map_err(JournalError::corrupt)?;
    let sum = checksum(FORMAT, &bytes[5..]);
    bytes[1..5].copy_from_slice(&sum);
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    let corrupt =
        |message: &dyn std::fmt::Display| Err(Unreadable::Corrupt(JournalError::corrupt(message)));
    let Some((&[format, ref sum @ ..], json)) = bytes.split_first_chunk::<5>() else {
        return corrupt(&format_args!("{} bytes are too few", bytes.len()));
    };
    if checksum(format, json) != *sum {
        return corrupt(&"a checksum is wrong");
    }
    if format != FORMAT {
        return Err(Unreadable::Newer(format));
    }
    serde_json::from_slice(json).or_else(|error| corrupt(&error))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_stored_bytes_is_found() {
        let bytes = encode(&["some", "text"]).unwrap();
        assert_eq!(decode::<Vec<String>>(&bytes).unwrap(), ["some", "text"]);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<Vec<String>>(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode::<Vec<String>>(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
