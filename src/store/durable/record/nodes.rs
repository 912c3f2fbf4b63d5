//! The binary form of nodes and marks.

use super::{Read, Record, RecordReader, RecordWriter, Written, used};
use crate::document::{Attributes, Children, Mark, Marks, Node, Text};

impl Record for Node {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let fields = used(&[
            true,
            true,
            self.parent().is_some(),
            !self.text().is_empty(),
            !self.children().is_empty(),
            !self.attributes().is_empty(),
            !self.marks().is_empty(),
        ]);
        to.list(fields)?;
        to.id(self.id())?;
        to.name(self.kind())?;
        if fields > 2 {
            to.optional(self.parent(), RecordWriter::id)?;
        }
        if fields > 3 {
            to.pieces(self.text().bytes(), self.text().chunks())?;
        }
        if fields > 4 {
            to.each(
                self.children().len(),
                self.children().iter(),
                RecordWriter::id,
            )?;
        }
        if fields > 5 {
            to.serialized(self.attributes())?;
        }
        if fields > 6 {
            to.value(self.marks())?;
        }
        Ok(())
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(2..=7)?;
        let (id, kind) = (from.id()?, from.name()?);
        let parent = match fields > 2 {
            true => from.optional(RecordReader::id)?,
            false => None,
        };
        let text = match fields > 3 {
            true => Text::from(from.text()?),
            false => Text::default(),
        };
        let children = match fields > 4 {
            true => from.each(RecordReader::id)?.into_iter().collect(),
            false => Children::default(),
        };
        let attributes = match fields > 5 {
            true => from.deserialized()?,
            false => Attributes::default(),
        };
        let marks = match fields > 6 {
            true => from.value()?,
            false => Marks::default(),
        };
        Ok(Self::stored(
            id, kind, parent, text, children, attributes, marks,
        ))
    }
}

impl Record for Marks {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        to.each(self.iter().count(), self.iter(), RecordWriter::value)
    }

    /// Normalizes for a text of any length; the range is checked when the marks are applied.
    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let marks = from.each(RecordReader::value)?;
        Self::normal(marks, usize::MAX).map_err(|mark| {
            from.error(format_args!(
                "the mark `{}` ends before it starts",
                mark.kind
            ))
        })
    }
}

impl Record for Mark {
    fn write<'a>(&'a self, to: &mut RecordWriter<'a>) -> Written {
        let Self {
            kind,
            range,
            attributes,
        } = self;
        let has_attributes = !attributes.is_empty();
        to.list(3 + usize::from(has_attributes))?;
        to.name(kind)?;
        to.optional(range.as_ref(), |to, range| to.number(range.start as u64))?;
        to.number(range.as_ref().map_or(0, |range| range.end as u64))?;
        match has_attributes {
            true => to.serialized(attributes),
            false => Ok(()),
        }
    }

    fn read(from: &mut RecordReader<'_>) -> Read<Self> {
        let fields = from.fields(3..=4)?;
        let kind = from.name()?;
        let (start, end) = (from.optional(RecordReader::index)?, from.index()?);
        Ok(Self {
            kind,
            range: start.map(|start| start..end),
            attributes: match fields > 3 {
                true => from.deserialized()?,
                false => Default::default(),
            },
        })
    }
}
