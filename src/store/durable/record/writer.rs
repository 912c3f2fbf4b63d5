//! Writes the binary form.

use minicbor::encode::Error;
use minicbor_serde::Serializer;
use serde::Serialize;

use super::{IDS, NAMES, Numbers, Recent, Record, Written};
use crate::id::{NodeId, Repr};

/// The kinds of CBOR values, in the upper three bits of their first byte.
const NUMBER: u8 = 0 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;

const NULL: u8 = 0xf6;

/// Writes one part, behind bytes that there are already.
pub(in crate::store::durable) struct RecordWriter<'a> {
    bytes: Vec<u8>,
    ids: Recent<&'a NodeId, IDS>,
    names: Recent<&'a str, NAMES>,
    pub(super) last: Numbers,
    /// The first commit of the block of which no receipt was written as its index.
    pub(super) next_receipt: usize,
}

impl<'a> RecordWriter<'a> {
    pub(in crate::store::durable) fn after(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ids: Recent::new(),
            names: Recent::new(),
            last: Numbers::default(),
            next_receipt: 0,
        }
    }

    pub(in crate::store::durable) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a kind of values with a number, in the fewest bytes. Most take one: pushed here, they
    /// cost half as much as through the encoder of the crate.
    #[inline]
    fn head(&mut self, kind: u8, number: u64) {
        match number {
            0..24 => self.bytes.push(kind | number as u8),
            _ => self.long_head(kind, number),
        }
    }

    fn long_head(&mut self, kind: u8, number: u64) {
        let bytes = number.to_be_bytes();
        let (size, used) = match number {
            0..=0xff => (24, 1),
            0x100..=0xffff => (25, 2),
            0x1_0000..=0xffff_ffff => (26, 4),
            _ => (27, 8),
        };
        self.bytes.push(kind | size);
        self.bytes.extend_from_slice(&bytes[bytes.len() - used..]);
    }

    /// Begins an array of so many items.
    pub(super) fn list(&mut self, len: usize) -> Written {
        self.head(ARRAY, len as u64);
        Ok(())
    }

    pub(super) fn number(&mut self, number: u64) -> Written {
        self.head(NUMBER, number);
        Ok(())
    }

    pub(super) fn null(&mut self) -> Written {
        self.bytes.push(NULL);
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> Written {
        self.head(TEXT, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes a text of so many bytes, which comes in pieces.
    pub(super) fn pieces<'t>(
        &mut self,
        bytes: usize,
        pieces: impl Iterator<Item = &'t str>,
    ) -> Written {
        self.head(TEXT, bytes as u64);
        pieces.for_each(|piece| self.bytes.extend_from_slice(piece.as_bytes()));
        Ok(())
    }

    /// Writes a text that may have been written before.
    pub(super) fn name(&mut self, name: &'a str) -> Written {
        if let Some(place) = self.names.place(|it| *it == name) {
            return self.number(place as u64);
        }
        self.names.add(name);
        self.text(name)
    }

    pub(super) fn id(&mut self, id: &'a NodeId) -> Written {
        if let Some(place) = self.ids.place(|it| *it == id) {
            return self.number(place as u64);
        }
        self.ids.add(id);
        match &id.0 {
            Repr::Generated { session, counter } if *session == self.last.session => {
                self.list(1)?;
                self.number(*counter)
            }
            Repr::Generated { session, counter } => {
                self.list(2)?;
                self.number((*session).into())?;
                self.number(*counter)
            }
            Repr::Short(_) | Repr::Long(_) => self.text(id.custom_text().unwrap_or_default()),
        }
    }

    pub(super) fn value<T: Record>(&mut self, value: &'a T) -> Written {
        value.write(self)
    }

    /// Writes a value, or null.
    pub(super) fn optional<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> Written,
    ) -> Written {
        match value {
            Some(value) => write(self, value),
            None => self.null(),
        }
    }

    /// Writes an array.
    pub(super) fn each<T>(
        &mut self,
        len: usize,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Written,
    ) -> Written {
        self.list(len)?;
        items.into_iter().try_for_each(|item| write(self, item))
    }

    /// Writes a value as serde derives it.
    pub(super) fn serialized(&mut self, value: &impl Serialize) -> Written {
        let mut serializer = Serializer::new(&mut self.bytes);
        // Otherwise it would be an empty array, as which a null in an attribute would be read.
        serializer.serialize_unit_as_null(true);
        value.serialize(&mut serializer).map_err(Error::message)
    }
}
