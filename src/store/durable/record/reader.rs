//! Reads the binary form. Nothing is allocated for a length before its items are there.

use std::fmt::Display;
use std::ops::RangeInclusive;

use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor_serde::Deserializer;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;

use super::{IDS, NAMES, Numbers, Read, Recent, Record};
use crate::id::NodeId;

/// Reads one part.
pub(in crate::store::durable) struct RecordReader<'b> {
    decoder: Decoder<'b>,
    ids: Recent<NodeId, IDS>,
    names: Recent<SmolStr, NAMES>,
    pub(super) last: Numbers,
    /// The first commit of the block of which no receipt was read as its index.
    pub(super) next_receipt: usize,
}

impl<'b> RecordReader<'b> {
    pub(in crate::store::durable) fn new(bytes: &'b [u8]) -> Self {
        Self {
            decoder: Decoder::new(bytes),
            ids: Recent::new(),
            names: Recent::new(),
            last: Numbers::default(),
            next_receipt: 0,
        }
    }

    /// Checks that all bytes were read.
    pub(in crate::store::durable) fn finish(self) -> Read<()> {
        match self.decoder.input().len() - self.decoder.position() {
            0 => Ok(()),
            more => Err(self.error(format_args!("{more} bytes follow the value"))),
        }
    }

    /// The error of what comes next, or was read last.
    pub(super) fn error(&self, message: impl Display) -> Error {
        Error::message(message).at(self.decoder.position())
    }

    /// Begins an array, and returns how many items it has.
    pub(super) fn list(&mut self) -> Read<u64> {
        let at = self.decoder.position();
        let len = self.decoder.array()?;
        len.ok_or_else(|| Error::message("an array has no length").at(at))
    }

    /// Begins an array with so many items.
    pub(super) fn fields(&mut self, allowed: RangeInclusive<u64>) -> Read<u64> {
        let at = self.decoder.position();
        match self.list()? {
            len if allowed.contains(&len) => Ok(len),
            len => {
                let (least, most) = allowed.into_inner();
                let message = match least == most {
                    true => format!("an array has {len} items, not {least}"),
                    false => format!("an array has {len} items, not {least} to {most}"),
                };
                Err(Error::message(message).at(at))
            }
        }
    }

    pub(super) fn number(&mut self) -> Read<u64> {
        self.decoder.u64()
    }

    pub(super) fn index(&mut self) -> Read<usize> {
        let at = self.decoder.position();
        let number = self.number()?;
        let too_large = |_| Error::message(format_args!("{number} is too large")).at(at);
        usize::try_from(number).map_err(too_large)
    }

    pub(super) fn session(&mut self) -> Read<u32> {
        self.decoder.u32()
    }

    pub(super) fn text(&mut self) -> Read<&'b str> {
        self.decoder.str()
    }

    /// Whether an array comes next.
    pub(super) fn is_list(&self) -> Read<bool> {
        Ok(self.decoder.datatype()? == Type::Array)
    }

    /// Whether a text comes next.
    pub(super) fn is_text(&self) -> Read<bool> {
        Ok(self.decoder.datatype()? == Type::String)
    }

    /// Reads a text that may have been read before.
    pub(super) fn name(&mut self) -> Read<SmolStr> {
        if self.is_text()? {
            let name = SmolStr::new(self.text()?);
            self.names.add(name.clone());
            return Ok(name);
        }
        let place = self.index()?;
        let name = self.names.slots.get(place).cloned().flatten();
        name.ok_or_else(|| self.error(format_args!("there is no name {place}")))
    }

    pub(super) fn id(&mut self) -> Read<NodeId> {
        let id = if self.is_text()? {
            let text = self.text()?;
            text.parse().map_err(|error| self.error(error))?
        } else if self.is_list()? {
            let session = match self.fields(1..=2)? {
                1 => self.last.session,
                _ => self.session()?,
            };
            NodeId::generated(session, self.number()?)
        } else {
            let place = self.index()?;
            let id = self.ids.slots.get(place).cloned().flatten();
            return id.ok_or_else(|| self.error(format_args!("there is no id {place}")));
        };
        self.ids.add(id.clone());
        Ok(id)
    }

    pub(super) fn value<T: Record>(&mut self) -> Read<T> {
        T::read(self)
    }

    /// Reads a value, or null.
    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.decoder.datatype()? {
            Type::Null => self.decoder.null().map(|()| None),
            _ => read(self).map(Some),
        }
    }

    /// Reads a field that may be left out.
    pub(super) fn given<T: Default>(
        &mut self,
        is_given: bool,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        match is_given {
            true => read(self),
            false => Ok(T::default()),
        }
    }

    /// Reads an array.
    pub(super) fn each<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut items = Vec::new();
        for _ in 0..self.list()? {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Reads a value as serde derives it.
    pub(super) fn deserialized<T: DeserializeOwned>(&mut self) -> Read<T> {
        // A list makes room for the length that it claims: only if so many items are there.
        self.decoder.clone().skip()?;
        let mut deserializer = Deserializer::from(self.decoder.clone());
        let read = T::deserialize(&mut deserializer);
        self.decoder = deserializer.into_decoder();
        read.map_err(|error| self.error(error))
    }
}
