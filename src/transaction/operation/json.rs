//! The JSON form of one operation: refuses unknown, missing and duplicate fields, and names the
//! field in the error.
//!
//! A payload is read from its text, field by field. So an error has a position within its field,
//! and a duplicate field is an error before a map could drop one of the two. An unknown field of
//! the operation itself is reported behind its name, and one of the payload at its name. The line
//! and column are counted in `batch_json.rs`.

use std::collections::HashSet;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment, Track};
use smol_str::SmolStr;

use crate::document::TextUnit;
use crate::document::value::Payload;
use crate::hashing::Secret;
use crate::json::{offset, reason};

/// An operation in its JSON form.
#[derive(Serialize)]
pub(super) struct OperationJson<'a> {
    #[serde(rename = "type")]
    name: &'static str,
    pub(super) payload: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<&'a SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<TextUnit>,
}

impl<'a> OperationJson<'a> {
    pub(super) fn new(name: &'static str, payload: Value) -> Self {
        Self {
            name,
            payload,
            alias: None,
            unit: None,
        }
    }

    pub(super) fn in_unit(self, unit: Option<TextUnit>) -> Self {
        Self { unit, ..self }
    }

    pub(super) fn named(self, alias: &'a SmolStr) -> Result<Self, serde_json::Error> {
        match self.alias {
            None => Ok(Self {
                alias: Some(alias),
                ..self
            }),
            Some(_) => Err(serde::ser::Error::custom(
                "an operation with two names cannot be serialized",
            )),
        }
    }
}

/// Why a text is not an operation.
#[derive(Debug)]
pub(in crate::transaction) struct Malformed<'a> {
    /// The text from the error on.
    pub(in crate::transaction) at: &'a str,
    pub(in crate::transaction) reason: String,
}

type ReadResult<'a, T> = Result<T, Malformed<'a>>;

impl<'a> Malformed<'a> {
    fn new(at: &'a str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { at, reason }
    }

    /// Converts an error of serde_json, whose position is relative to the text that it read.
    pub(in crate::transaction) fn of(text: &'a str, error: &serde_json::Error) -> Self {
        let at = text.floor_char_boundary(offset(text, error));
        Self::new(&text[at..], reason(error))
    }

    /// Adds the name of the surrounding part to the error.
    pub(super) fn within(self, part: impl fmt::Display) -> Self {
        let reason = format!("{part}: {}", self.reason);
        Self { reason, ..self }
    }
}

/// An operation whose payload is still text.
pub(super) struct Envelope<'a> {
    /// The complete text.
    text: &'a str,
    pub(super) name: String,
    /// The text from the name on.
    name_at: &'a str,
    payload: Option<&'a RawValue>,
    pub(super) alias: Option<SmolStr>,
    unit: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    pub(super) fn read(text: &'a RawValue) -> ReadResult<'a, Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = "an operation")]
        struct OperationFields<'a> {
            #[serde(rename = "type", borrow)]
            name: &'a RawValue,
            #[serde(default, borrow, deserialize_with = "given")]
            payload: Option<&'a RawValue>,
            #[serde(default)]
            alias: Option<SmolStr>,
            #[serde(default, borrow)]
            unit: Option<&'a RawValue>,
        }

        /// Unlike an `Option`, rejects `null`.
        fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
            Deserialize::deserialize(value).map(Some)
        }

        let text = text.get();
        let fields: OperationFields<'_> =
            serde_json::from_str(text).map_err(|error| Malformed::of(text, &error))?;
        let name_at = fields.name.get();
        let name = serde_json::from_str(name_at).map_err(|error| Malformed::of(name_at, &error))?;
        Ok(Self {
            text,
            name,
            name_at,
            payload: fields.payload,
            alias: fields.alias,
            unit: fields.unit,
        })
    }

    /// The unit of its positions.
    pub(super) fn unit(&self) -> ReadResult<'a, Option<TextUnit>> {
        let unit = self.unit.map(read_unit).transpose();
        unit.map_err(|fault| fault.within(&self.name))
    }

    /// Checks that it has no unit, because the surrounding operation has it.
    pub(super) fn without_unit(&self) -> ReadResult<'a, ()> {
        let Some(unit) = self.unit else {
            return Ok(());
        };
        let reason = "an operation within a `control` counts in the unit of the `control`";
        let fault = Malformed::new(unit.get(), reason).within("unit");
        Err(fault.within(&self.name))
    }

    /// Makes the error for an unknown name.
    pub(super) fn unknown(&self, known: impl Iterator<Item = &'static str>) -> Malformed<'a> {
        let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
        let reason = format!(
            "unknown variant `{}`, expected one of {}",
            self.name,
            known.join(", ")
        );
        Malformed::new(self.name_at, reason).within(&self.name)
    }

    /// Returns the fields of the payload, each once.
    pub(super) fn fields(&self) -> ReadResult<'a, PayloadFields<'a>> {
        let text = self.payload.map_or(self.text, RawValue::get);
        let entries = match self.payload {
            Some(payload) => {
                let ObjectFields(entries) = serde_json::from_str(payload.get())
                    .map_err(|error| Malformed::of(text, &error).within(&self.name))?;
                entries
            }
            None => Vec::new(),
        };
        let mut fields = PayloadFields {
            operation: self.name.clone(),
            text,
            list: Vec::with_capacity(entries.len()),
        };
        let mut known: HashSet<String, Secret> = HashSet::default();
        for (key, value) in entries {
            let name: String = serde_json::from_str(key.get())
                .map_err(|error| Malformed::of(key.get(), &error).within(&self.name))?;
            crate::steps::step();
            if !known.insert(name.clone()) {
                let twice = Malformed::new(key.get(), format!("duplicate field `{name}`"));
                return Err(twice.within(&self.name));
            }
            let key = key.get();
            fields.list.push(PayloadField { name, key, value });
        }
        Ok(fields)
    }
}

pub(in crate::transaction) fn read_unit(unit: &RawValue) -> ReadResult<'_, TextUnit> {
    let unit = unit.get();
    let name: Result<String, _> = serde_json::from_str(unit);
    let name = name.map_err(|error| Malformed::of(unit, &error).within("unit"))?;
    let name: StrDeserializer<'_, serde_json::Error> = name.as_str().into_deserializer();
    TextUnit::deserialize(name).map_err(|error| Malformed::new(unit, reason(&error)).within("unit"))
}

/// Returns the JSON of an operation in any input format.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    let Payload(operation) = Payload::deserialize(deserializer)?;
    serde_json::value::to_raw_value(&operation).map_err(D::Error::custom)
}

/// The fields of an object in order, duplicates included.
pub(in crate::transaction) struct ObjectFields<'a>(
    pub(in crate::transaction) Vec<(&'a RawValue, &'a RawValue)>,
);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectFieldsVisitor;

        impl<'de> Visitor<'de> for ObjectFieldsVisitor {
            type Value = ObjectFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ObjectFields<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(ObjectFields(entries))
            }
        }

        deserializer.deserialize_map(ObjectFieldsVisitor)
    }
}

/// The payload of an operation.
pub(super) struct PayloadFields<'a> {
    operation: String,
    /// The complete text.
    text: &'a str,
    list: Vec<PayloadField<'a>>,
}

struct PayloadField<'a> {
    name: String,
    key: &'a str,
    value: &'a RawValue,
}

impl<'a> PayloadFields<'a> {
    /// Takes one field out.
    pub(super) fn split(&mut self, name: &str) -> ReadResult<'a, Self> {
        let at = self.list.iter().position(|field| field.name == name);
        let at = at.ok_or_else(|| {
            let missing = Malformed::new(self.text, format!("missing field `{name}`"));
            missing.within(&self.operation)
        })?;
        Ok(Self {
            operation: self.operation.clone(),
            text: self.text,
            list: vec![self.list.remove(at)],
        })
    }

    /// Reads a struct with these fields.
    pub(super) fn read<T: Deserialize<'a>>(&self) -> ReadResult<'a, T> {
        self.tracked(MapDeserializer::new(self.entries()))
    }

    /// Reads the variant that has the operation's name and these fields.
    pub(super) fn read_variant<T: Deserialize<'a>>(&self) -> ReadResult<'a, T> {
        let fields = MapDeserializer::new(self.entries());
        let variant = std::iter::once((self.operation.as_str(), fields));
        self.tracked(MapAccessDeserializer::new(MapDeserializer::new(variant)))
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let fields = self.list.iter();
        fields.map(|field| (field.name.as_str(), field.value))
    }

    fn tracked<T, D>(&self, payload: D) -> ReadResult<'a, T>
    where
        T: Deserialize<'a>,
        D: Deserializer<'a, Error = serde_json::Error>,
    {
        let mut track = Track::new();
        let read = T::deserialize(serde_path_to_error::Deserializer::new(payload, &mut track));
        read.map_err(|error| self.fault(&track.path(), &error))
    }

    fn fault(&self, path: &Path, error: &serde_json::Error) -> Malformed<'a> {
        let mut path = path.iter().peekable();
        while path
            .next_if(|segment| matches!(segment, Segment::Enum { .. }))
            .is_some()
        {}
        let field = match path.peek() {
            Some(Segment::Map { key }) => self.list.iter().find(|field| field.name == *key),
            _ => None,
        };
        let fault = match field {
            // Without a position it concerns the name.
            Some(field) if error.line() == 0 => Malformed::new(field.key, reason(error)),
            Some(field) => Malformed::of(field.value.get(), error),
            None => Malformed::new(self.text, reason(error)),
        };
        let place = place(path);
        let fault = match place.as_str() {
            "" => fault,
            place => fault.within(place),
        };
        fault.within(&self.operation)
    }
}

/// The most segments of a path that an error shows.
const LONGEST: usize = 12;

/// The path to a position in a payload: `marks[0].range`.
fn place<'p>(path: impl Iterator<Item = &'p Segment>) -> String {
    let mut place = String::new();
    for (nth, segment) in path.enumerate() {
        if nth == LONGEST {
            place.push('…');
            break;
        }
        match segment {
            Segment::Seq { index } => place.push_str(&format!("[{index}]")),
            segment => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(&segment.to_string());
            }
        }
    }
    place
}
