//! What the crate knows of each operation, and the list that makes an enum of them.

use crate::document::{Budget, LimitExceeded, Overlay};
use crate::store::Draft;
use crate::transaction::error::OperationError;

pub(super) type Edited = Result<(), OperationError>;
pub(super) type SizeCheck = Result<(), LimitExceeded>;

/// An operation on a node or on the document: all that the crate knows of it beside its name and
/// its fields.
pub(in crate::transaction) trait OperationOn<Target> {
    /// Checks the size of its names, values and texts, and of the nodes in it, before the lock is
    /// requested.
    fn size(&self, budget: &Budget) -> SizeCheck;

    /// Converts its positions from UTF-16 units, each in the current text of its node.
    fn to_scalars(&mut self, on: &mut Draft, target: &Target) -> Edited;

    /// The steps of the operation itself, and of the text that it reads as a whole. It counts
    /// anything else when it reads it.
    fn steps(&self, _: &Overlay, _: &Target) -> usize {
        1
    }

    /// Whether [`to_scalars`](Self::to_scalars) can convert something.
    fn has_positions(&self) -> bool {
        true
    }

    /// Whether it only decides whether its batch may run. A repetition of the batch may have
    /// another condition.
    fn is_condition(&self) -> bool {
        false
    }

    /// Whether it is code of users, which runs once.
    fn is_code(&self) -> bool {
        false
    }

    /// Runs it. If it fails midway, the caller rolls back its changes (T8).
    fn run(self, on: &mut Draft, target: &Target) -> Edited;
}

/// States that an operation has no size or no positions. There is no default, so the compiler
/// demands a decision about each new operation.
macro_rules! without {
    ($($what:ident),+) => {
        $(without!(@ $what);)+
    };
    (@ size) => {
        fn size(&self, _: &$crate::document::Budget) -> super::SizeCheck {
            Ok(())
        }
    };
    (@ positions) => {
        fn to_scalars(&mut self, _: &mut $crate::store::Draft, _: &super::Target) -> super::Edited {
            Ok(())
        }

        fn has_positions(&self) -> bool {
            false
        }
    };
}

/// The name of a variant in JSON: that of `InsertText` is `insertText`.
macro_rules! json_name {
    ($variant:ident) => {{
        const BYTES: &[u8] = {
            const VARIANT: &str = stringify!($variant);
            &crate::transaction::operation::list::in_camel_case::<{ VARIANT.len() }>(VARIANT)
        };
        const {
            match std::str::from_utf8(BYTES) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            }
        }
    }};
}

pub(super) const fn in_camel_case<const LENGTH: usize>(variant: &str) -> [u8; LENGTH] {
    let mut name = [0; LENGTH];
    name.copy_from_slice(variant.as_bytes());
    name[0].make_ascii_lowercase();
    name
}

/// Makes an enum of all operations on a `Target`. A row has the type of an operation, whose name in
/// JSON is that in camelCase, and its functions in [`dsl`](crate::dsl). The variant after `named`
/// wraps another operation and has no name of its own.
macro_rules! operations {
    (
        $(#[$about:meta])*
        $all:ident $(, named $wrapper:ident)?;
        $($family:ident { $($name:ident => $first:ident $(, $more:ident)*;)+ })+
    ) => {
        $(pub use $family::{$($name),+};)+

        /// The functions that create the operations.
        pub(in crate::transaction) mod functions {
            $(pub use super::$family::{$($first $(, $more)*),+};)+
        }

        $(#[$about])*
        #[derive(
            Clone,
            Debug,
            PartialEq,
            serde::Serialize,
            serde::Deserialize,
        )]
        #[serde(remote = "Self", rename_all = "camelCase")]
        #[non_exhaustive]
        pub enum $all {
            $($(
                #[doc = concat!(
                    "See [`dsl::", stringify!($first), "`](crate::dsl::", stringify!($first), ").",
                )]
                $name($name),
            )+)+
            $(
                /// See [`named`](Self::named).
                #[serde(skip)]
                $wrapper {
                    /// The name.
                    alias: smol_str::SmolStr,
                    /// The operation.
                    operation: Box<Self>,
                },
            )?
        }

        $($(
            impl From<$name> for $all {
                fn from(operation: $name) -> Self {
                    Self::$name(operation)
                }
            }
        )+)+

        impl $all {
            /// The names of all these operations in the JSON form.
            pub const NAMES: &'static [&'static str] = &[$($(json_name!($name)),+),+];

            /// Returns the name in the JSON form.
            pub fn name(&self) -> &'static str {
                match self {
                    $($(Self::$name(_) => json_name!($name),)+)+
                    $(Self::$wrapper { operation, .. } => operation.name(),)?
                }
            }

            /// The payload of the JSON form.
            pub(super) fn payload(&self) -> Result<serde_json::Value, serde_json::Error> {
                // The derived form is `{name: payload}`.
                let mut value = Self::serialize(self, serde_json::value::Serializer)?;
                Ok(value[self.name()].take())
            }

            /// Reads the operation that has the name and the fields of this payload.
            pub(super) fn of_fields<'a>(
                fields: &super::json::PayloadFields<'a>,
            ) -> Result<Self, super::json::Malformed<'a>> {
                struct Derived($all);

                impl<'de> serde::Deserialize<'de> for Derived {
                    fn deserialize<D: serde::Deserializer<'de>>(
                        deserializer: D,
                    ) -> Result<Self, D::Error> {
                        $all::deserialize(deserializer).map(Self)
                    }
                }

                fields.read_variant().map(|Derived(operation)| operation)
            }
        }

        impl OperationOn<Target> for $all {
            fn size(&self, budget: &$crate::document::Budget) -> SizeCheck {
                match self {
                    $($(Self::$name(operation) => operation.size(budget),)+)+
                    $(Self::$wrapper { alias, operation } => {
                        budget.name(alias)?;
                        operation.size(budget)
                    })?
                }
            }

            fn to_scalars(&mut self, on: &mut $crate::store::Draft, target: &Target) -> Edited {
                match self {
                    $($(Self::$name(operation) => operation.to_scalars(on, target),)+)+
                    $(Self::$wrapper { operation, .. } => operation.to_scalars(on, target),)?
                }
            }

            fn steps(&self, on: &$crate::document::Overlay, target: &Target) -> usize {
                match self {
                    $($(Self::$name(operation) => operation.steps(on, target),)+)+
                    $(Self::$wrapper { operation, .. } => operation.steps(on, target),)?
                }
            }

            fn has_positions(&self) -> bool {
                match self {
                    $($(Self::$name(operation) => operation.has_positions(),)+)+
                    $(Self::$wrapper { operation, .. } => operation.has_positions(),)?
                }
            }

            fn is_condition(&self) -> bool {
                match self {
                    $($(Self::$name(operation) => operation.is_condition(),)+)+
                    $(Self::$wrapper { operation, .. } => operation.is_condition(),)?
                }
            }

            fn run(self, on: &mut $crate::store::Draft, target: &Target) -> Edited {
                match self {
                    $($(Self::$name(operation) => operation.run(on, target),)+)+
                    $(Self::$wrapper { operation, .. } => operation.run(on, target),)?
                }
            }
        }
    };
}
