//! Which attributes a node or a mark may have.

use std::collections::BTreeMap;

use serde_json::Value;
use smol_str::SmolStr;

use super::error::{AttributeFault, SchemaError};
use super::spec::{AttributeSpec, Named, ValueType};
use crate::document::{Attributes, value};
use crate::steps::step;

/// What is known of the attributes of one node type or one kind of mark.
#[derive(Clone, Debug)]
pub(super) struct AttributeRules {
    specs: BTreeMap<SmolStr, AttributeSpec>,
    others: bool,
}

impl AttributeRules {
    /// Rules of the type or mark that is named `of`.
    pub(super) fn new(
        of: &SmolStr,
        attributes: &Named<AttributeSpec>,
        others: bool,
    ) -> Result<Self, SchemaError> {
        let mut specs = BTreeMap::new();
        for (attribute, spec) in &attributes.0 {
            sound(of, attribute, spec)?;
            if specs.insert(attribute.clone(), spec.clone()).is_some() {
                return Err(SchemaError::DuplicateAttribute {
                    of: of.clone(),
                    attribute: attribute.clone(),
                });
            }
        }
        Ok(Self { specs, others })
    }

    pub(super) fn check(&self, attributes: &Attributes) -> Result<(), AttributeFault> {
        for (attribute, spec) in &self.specs {
            step();
            match attributes.get(attribute) {
                Some(value) => spec.check(attribute, value)?,
                None if spec.required => {
                    let attribute = attribute.clone();
                    return Err(AttributeFault::Missing { attribute });
                }
                None => {}
            }
        }
        let mut names = attributes.iter().map(|(name, _)| name);
        match names.find(|name| !self.others && !self.specs.contains_key(*name)) {
            Some(attribute) => Err(AttributeFault::Unknown {
                attribute: attribute.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The attributes that are absent and have a default, with it.
    pub(super) fn defaults<'a>(
        &'a self,
        attributes: &Attributes,
    ) -> impl Iterator<Item = (SmolStr, Value)> + use<'a> {
        let present = attributes.clone();
        let absent = move |name: &SmolStr| present.get(name).is_none();
        self.specs.iter().filter_map(move |(name, spec)| {
            let default = spec.default.as_ref().filter(|_| absent(name))?;
            Some((name.clone(), default.clone()))
        })
    }

    /// Sets what is absent and has a default.
    pub(super) fn complete(&self, attributes: &mut Attributes) {
        for (name, default) in self.defaults(attributes) {
            attributes.set(name, Some(default));
        }
    }
}

impl AttributeSpec {
    fn check(&self, attribute: &SmolStr, value: &Value) -> Result<(), AttributeFault> {
        let (attribute, expected) = (attribute.clone(), self.value_type);
        let found = ValueType::of(value);
        if !expected.takes(found) {
            return Err(AttributeFault::WrongType {
                attribute,
                expected,
                found,
            });
        }
        match &self.values {
            Some(values) if !values.iter().inspect(|_| step()).any(|one| one == value) => {
                Err(AttributeFault::NotAllowed { attribute })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that an attribute can have a value, and the one that it has by default.
fn sound(of: &SmolStr, attribute: &SmolStr, spec: &AttributeSpec) -> Result<(), SchemaError> {
    let mut given = spec.values.iter().flatten().chain(&spec.default);
    if let Some(levels) = given.find_map(value::beyond_limit) {
        return Err(SchemaError::TooDeep {
            of: of.clone(),
            attribute: attribute.clone(),
            levels,
            limit: value::MAX_LEVELS,
        });
    }
    let fits = |value: &Value| !value.is_null() && spec.value_type.takes(ValueType::of(value));
    let values = spec.values.as_ref();
    if values.is_some_and(|values| values.is_empty() || !values.iter().all(fits)) {
        return Err(SchemaError::AttributeValues {
            of: of.clone(),
            attribute: attribute.clone(),
            expected: spec.value_type,
        });
    }
    let default = spec.default.as_ref();
    default
        .map_or(Ok(()), |default| spec.check(attribute, default))
        .map_err(|fault| SchemaError::AttributeDefault {
            of: of.clone(),
            attribute: attribute.clone(),
            fault,
        })
}
