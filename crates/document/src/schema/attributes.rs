//! Rules for the attributes of nodes and marks.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use smol_str::SmolStr;

use super::error::{AttributeFault, SchemaError};
use super::spec::{AttributeSpec, Definitions, ValueType};
use crate::hashing::Secret;
use crate::steps::step;
use crate::{Attributes, value};

/// The rules for the attributes of one node type or one kind of mark.
#[derive(Clone, Debug)]
pub(super) struct AttributeRules {
    rules: BTreeMap<SmolStr, AttributeRule>,
    others: bool,
}

/// The rule for one attribute.
#[derive(Clone, Debug)]
struct AttributeRule {
    value_type: ValueType,
    required: bool,
    default: Option<Value>,
    values: Option<HashSet<Value, Secret>>,
}

impl AttributeRules {
    /// Rules of the type or mark named `of`.
    pub(super) fn new(
        of: &SmolStr,
        attributes: &Definitions<AttributeSpec>,
        others: bool,
    ) -> Result<Self, SchemaError> {
        let mut rules = BTreeMap::new();
        for (attribute, spec) in &attributes.0 {
            let rule = AttributeRule::new(of, attribute, spec)?;
            if rules.insert(attribute.clone(), rule).is_some() {
                return Err(SchemaError::DuplicateAttribute {
                    of: of.clone(),
                    attribute: attribute.clone(),
                });
            }
        }
        Ok(Self { rules, others })
    }

    pub(super) fn check(&self, attributes: &Attributes) -> Result<(), AttributeFault> {
        for (attribute, rule) in &self.rules {
            step();
            match attributes.get(attribute) {
                Some(value) => rule.check(attribute, value)?,
                None if rule.required => {
                    let attribute = attribute.clone();
                    return Err(AttributeFault::Missing { attribute });
                }
                None => {}
            }
        }
        let mut names = attributes.iter().map(|(name, _)| name);
        match names.find(|name| !self.others && !self.rules.contains_key(*name)) {
            Some(attribute) => Err(AttributeFault::Unknown {
                attribute: attribute.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The attributes that a new node has to be given, because they have no default.
    pub(super) fn has_open(&self) -> bool {
        let mut rules = self.rules.values();
        rules.any(|rule| rule.required && rule.default.is_none())
    }

    /// The names of the required attributes.
    pub(super) fn required(&self) -> impl Iterator<Item = &SmolStr> {
        let rules = self.rules.iter().filter(|(_, rule)| rule.required);
        rules.map(|(name, _)| name)
    }

    /// Whether there is a rule for an attribute, or none is needed.
    pub(super) fn takes(&self, attribute: &str) -> bool {
        self.others || self.rules.contains_key(attribute)
    }

    /// The absent attributes that have a default, with that default.
    pub(super) fn defaults<'a>(
        &'a self,
        attributes: &Attributes,
    ) -> impl Iterator<Item = (SmolStr, Value)> + use<'a> {
        let present = attributes.clone();
        let absent = move |name: &SmolStr| present.get(name).is_none();
        self.rules.iter().filter_map(move |(name, rule)| {
            let default = rule.default.as_ref().filter(|_| absent(name))?;
            Some((name.clone(), default.clone()))
        })
    }

    /// Sets the defaults of absent attributes.
    pub(super) fn complete(&self, attributes: &mut Attributes) {
        for (name, default) in self.defaults(attributes) {
            attributes.set(name, Some(default));
        }
    }
}

impl AttributeRule {
    /// Checks that an attribute has a possible value, and that its default is one.
    fn new(of: &SmolStr, attribute: &SmolStr, spec: &AttributeSpec) -> Result<Self, SchemaError> {
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
        let rule = Self {
            value_type: spec.value_type,
            required: spec.required,
            default: spec.default.clone(),
            values: values.map(|values| values.iter().cloned().collect()),
        };
        let default = rule.default.as_ref();
        default
            .map_or(Ok(()), |default| rule.check(attribute, default))
            .map_err(|fault| SchemaError::AttributeDefault {
                of: of.clone(),
                attribute: attribute.clone(),
                fault,
            })?;
        Ok(rule)
    }

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
            Some(values) if !values.contains(value) => {
                Err(AttributeFault::NotAllowed { attribute })
            }
            _ => Ok(()),
        }
    }
}
