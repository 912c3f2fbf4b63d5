//! Where a program called.

use std::fmt;
use std::panic::Location;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// The source code location of the call that requested a lock.
///
/// Prints as `src/main.rs:7:13`, and serializes in the same form. A clone allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CallSite {
    /// The path of the source file as passed to the compiler.
    pub file: SmolStr,
    /// The line, counted from one.
    pub line: u32,
    /// The column, counted from one.
    pub column: u32,
}

impl From<&'static Location<'static>> for CallSite {
    fn from(location: &'static Location<'static>) -> Self {
        Self {
            file: SmolStr::new_static(location.file()),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Serialize for CallSite {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CallSite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = SmolStr::deserialize(deserializer)?;
        let parse = || {
            // A path can have colons, too.
            let mut parts = text.rsplitn(3, ':');
            let column = parts.next()?.parse().ok()?;
            let line = parts.next()?.parse().ok()?;
            let file = parts.next()?.into();
            Some(Self { file, line, column })
        };
        parse().ok_or_else(|| Error::invalid_value(Unexpected::Str(&text), &"`file:line:column`"))
    }
}
