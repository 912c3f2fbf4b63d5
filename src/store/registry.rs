//! Lock types beside the store that its diagnostics show.

use serde::Serialize;
use smol_str::SmolStr;

use super::DataStore;
use crate::lock::{LockName, Primitive, PrimitiveState};
use crate::sync::{Mutex, rank};

/// The registered lock types with their names, in the order of their registration.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<{ rank::METRICS }, Vec<Registered>>);

#[derive(Debug)]
struct Registered {
    name: SmolStr,
    primitive: Primitive,
    /// Names it for the threads that wait in it.
    _named: LockName,
}

/// A lock type that a program has registered.
///
/// Serializes in camelCase, with the fields of the state beside the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RegisteredPrimitive {
    /// The name from the registration.
    pub name: SmolStr,
    /// Its state, read after that of the store.
    #[serde(flatten)]
    pub state: PrimitiveState,
    /// Its address, which threads note that wait in it.
    #[serde(skip)]
    pub(super) place: usize,
}

impl RegisteredPrimitive {
    /// How many registered lock types are listed at most: those that were registered last.
    pub const LISTED: usize = 64;
}

impl DataStore {
    /// Registers a lock type under a name.
    pub(super) fn add_registered(&self, name: SmolStr, primitive: Primitive) {
        let mut registered = self.0.log.lazy.get_or_make().registry.0.lock();
        registered.retain(|other| {
            let is_same = other.name == name || other.primitive.is(&primitive);
            other.primitive.exists() && !is_same
        });
        // After the removal of its earlier name.
        let _named = primitive.named(name.clone());
        registered.push(Registered {
            name,
            primitive,
            _named,
        });
    }

    /// Reads the registered lock types, with no mutex of the store locked.
    pub(super) fn registered(&self) -> Vec<RegisteredPrimitive> {
        let Some(parts) = self.0.log.lazy.get() else {
            return Vec::new();
        };
        let mut registered = parts.registry.0.lock();
        registered.retain(|it| it.primitive.exists());
        let first = registered.len().saturating_sub(RegisteredPrimitive::LISTED);
        let listed = registered[first..].iter();
        let listed: Vec<_> = listed
            .map(|it| (it.name.clone(), it.primitive.clone()))
            .collect();
        drop(registered);
        let states = listed.into_iter().filter_map(|(name, primitive)| {
            let (state, place) = (primitive.inspect()?, primitive.place());
            Some(RegisteredPrimitive { name, state, place })
        });
        states.collect()
    }
}
