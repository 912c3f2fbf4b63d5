//! Writes the binary form.

use minicbor::Encoder;
use minicbor::encode::Error;
use minicbor_serde::Serializer;
use serde::Serialize;

use super::{IDS, NAMES, Numbers, Recent, Record, Written};
use crate::id::{NodeId, Repr};

/// Writes one part, behind bytes that there are already.
pub(in crate::store::durable) struct RecordWriter<'a> {
    encoder: Encoder<Vec<u8>>,
    ids: Recent<&'a NodeId, IDS>,
    names: Recent<&'a str, NAMES>,
    pub(super) last: Numbers,
    /// The first commit of the block of which no receipt was written as its index.
    pub(super) next_receipt: usize,
}

impl<'a> RecordWriter<'a> {
    pub(in crate::store::durable) fn after(bytes: Vec<u8>) -> Self {
        Self {
            encoder: Encoder::new(bytes),
            ids: Recent::new(),
            names: Recent::new(),
            last: Numbers::default(),
            next_receipt: 0,
        }
    }

    pub(in crate::store::durable) fn into_bytes(self) -> Vec<u8> {
        self.encoder.into_writer()
    }

    /// Begins an array of so many items.
    pub(super) fn list(&mut self, len: usize) -> Written {
        self.encoder.array(len as u64)?.ok()
    }

    pub(super) fn number(&mut self, number: u64) -> Written {
        self.encoder.u64(number)?.ok()
    }

    pub(super) fn null(&mut self) -> Written {
        self.encoder.null()?.ok()
    }

    pub(super) fn text(&mut self, text: &str) -> Written {
        self.encoder.str(text)?.ok()
    }

    /// Writes a text of so many bytes, which comes in pieces.
    pub(super) fn pieces<'t>(
        &mut self,
        bytes: usize,
        pieces: impl Iterator<Item = &'t str>,
    ) -> Written {
        self.encoder.str_len(bytes as u64)?;
        let written = self.encoder.writer_mut();
        pieces.for_each(|piece| written.extend_from_slice(piece.as_bytes()));
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
        let mut serializer = Serializer::new(self.encoder.writer_mut());
        // Otherwise it would be an empty array, as which a null in an attribute would be read.
        serializer.serialize_unit_as_null(true);
        value.serialize(&mut serializer).map_err(Error::message)
    }
}
