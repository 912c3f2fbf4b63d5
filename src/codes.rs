//! The common interface of all errors: a stable code, whether a retry may succeed, and a status of
//! HTTP.
//!
//! Every error also serializes as one shape of JSON object. The page
//! [errors](crate::guide::errors) lists all codes.

// The macro `codes` takes one line for each variant, and implements `CodedError` and `Serialize`.
// Its patterns name every field, so a new field of an error does not compile until it is evidence
// as well.

mod list;

use std::error::Error;

use serde::Serialize;

use list::coded;
pub(crate) use list::retry_of;

/// What a program reads of an error: its code, whether a retry may succeed, and a status of HTTP.
///
/// Every error of this crate implements it. The page [errors](crate::guide::errors) lists the
/// values of each code.
///
/// A boxed error has the values of the first error of this crate in it: itself, or one of the
/// first 64 in the chain of its [sources](Error::source). Its verdict is the best one of all of
/// them. So a custom error that returns the error that it wraps as its source keeps the verdict.
///
/// ```
/// use doclock::{DataStore, codes::{CodedError, Retry}, document::EditError};
/// use std::{error::Error, io};
///
/// let store = DataStore::new();
/// let held = store.lock("ann")?;
/// let error = std::thread::scope(|threads| {
///     threads.spawn(|| store.try_lock("bob").unwrap_err()).join().unwrap()
/// });
/// assert_eq!((error.code(), error.retry()), ("lockWouldBlock", Retry::Later));
/// assert_eq!(error.http_status(), 503);
///
/// let outdated = EditError::Outdated { id: "title".into(), version: 7 };
/// let wrapped: Box<dyn Error> = io::Error::other(outdated).into();
/// assert_eq!((wrapped.code(), wrapped.retry()), ("nodeOutdated", Retry::Now));
/// # drop(held);
/// # Ok::<(), Box<dyn Error>>(())
/// ```
pub trait CodedError {
    /// Returns the stable name of the error, in camelCase: the `code` of the JSON form.
    ///
    /// A variant that only wraps another error has the code of that error.
    fn code(&self) -> &'static str;

    /// Returns whether and when a retry of the same call may succeed.
    fn retry(&self) -> Retry;

    /// Returns the status with which a server can answer a request over HTTP that failed with this
    /// error.
    ///
    /// Unless the error has another, it is 409 (Conflict) if a retry may succeed now, 503 (Service
    /// Unavailable) if it may later, and 422 (Unprocessable Content) if it may not.
    fn http_status(&self) -> u16 {
        self.retry().http_status()
    }
}

/// Whether a retry of the same call, from its start, may succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Retry {
    /// It fails again, unless the document, the program or the input changes.
    #[default]
    No,
    /// It may succeed after a pause: the call ended at a bound, or met a state that another call
    /// ends.
    Later,
    /// It may succeed at once: the call lost a conflict with a concurrent change. This is what
    /// [`retry`](crate::transaction::retry()) repeats.
    Now,
}

impl Retry {
    /// The status of an error that has no other.
    pub(crate) fn http_status(self) -> u16 {
        match self {
            Self::No => 422,
            Self::Later => 503,
            Self::Now => 409,
        }
    }
}

/// Whether a retry may succeed at once.
impl From<bool> for Retry {
    fn from(now: bool) -> Self {
        match now {
            true => Self::Now,
            false => Self::No,
        }
    }
}

/// The code of a boxed error that has no error of this crate in it.
const FOREIGN: &str = "other";

macro_rules! coded_box {
    ($($error:ty),*) => {$(
        /// The values are those of the first error of this crate in it. Without one, the code is
        /// `other`, a retry does not help, and the status is 500.
        impl CodedError for Box<$error> {
            fn code(&self) -> &'static str {
                coded(&**self).next().map_or(FOREIGN, CodedError::code)
            }

            fn retry(&self) -> Retry {
                retry_of(&**self)
            }

            fn http_status(&self) -> u16 {
                coded(&**self).next().map_or(500, CodedError::http_status)
            }
        }
    )*};
}

coded_box!(dyn Error, dyn Error + Send + Sync);

/// Gives an error a code, a verdict, a status and a JSON form. Each line is one of:
///
/// - `pattern => "code";`: the fields of the pattern are the evidence, and a retry does not help;
/// - `pattern => "code" { key: value };`: these values are the evidence instead;
/// - `pattern => "code" if retry;`: a [`Retry`], or whether a retry may succeed at once;
/// - `pattern => "code", 404;`: the status, where it is not that of the verdict;
/// - `pattern => as inner;`: the variant adds nothing to the error in it.
macro_rules! codes {
    ($error:ty $([$generic:ident])? {$(
        $($path:ident)::+ $(($inner:ident))? $({ $($field:ident),* $(,)? })? =>
            $(as $from:ident)?
            $($code:literal $({ $($key:ident: $value:expr),* $(,)? })? $(if $retry:expr)?
                $(, $status:expr)?)?;
    )*}) => {
        #[allow(unused_variables)]
        impl $(<$generic>)? $crate::codes::CodedError for $error {
            fn code(&self) -> &'static str {
                #[allow(unused_imports)]
                use $crate::codes::CodedError as _;
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(@code $(as $from)? $($code)?)
                    }
                )*}
            }

            fn retry(&self) -> $crate::codes::Retry {
                #[allow(unused_imports)]
                use $crate::codes::CodedError as _;
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(@retry $(as $from)? $($code $(if $retry)?)?)
                    }
                )*}
            }

            fn http_status(&self) -> u16 {
                #[allow(unused_imports)]
                use $crate::codes::CodedError as _;
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(
                            @status $(as $from)? $($code $(if $retry)? $(, $status)?)?
                        )
                    }
                )*}
            }
        }

        /// Serializes as an object: `code`, `message`, and the evidence in camelCase.
        #[allow(unused_variables)]
        impl $(<$generic>)? serde::Serialize for $error {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(
                            @serialize self serializer $(as $from)? $($code)?
                            [$($($field)*)?] [$($({ $($key: $value),* })?)?]
                        )
                    }
                )*}
            }
        }

        #[cfg(all(test, not(loom)))]
        impl $(<$generic>)? $crate::codes::Coded for $error {
            const NAME: &'static str = stringify!($error);
            const KINDS: &'static [Option<$crate::codes::Kind>] = &[$(
                $crate::codes::codes!(
                    @kind $(as $from)? $($code)?
                    [$($($field)*)?] [$($({ $($key)* })?)?] [$($($retry)?)?] [$($($status)?)?]
                )
            ),*];
        }
    };

    (@code as $from:ident) => { $from.code() };
    (@code $code:literal) => { $code };

    (@retry as $from:ident) => { $from.retry() };
    (@retry $code:literal) => { $crate::codes::Retry::No };
    (@retry $code:literal if $retry:expr) => { $crate::codes::Retry::from($retry) };

    (@status as $from:ident) => { $from.http_status() };
    (@status $code:literal $(if $retry:expr)?, $status:expr) => { $status };
    (@status $($verdict:tt)*) => {
        $crate::codes::codes!(@retry $($verdict)*).http_status()
    };

    (@serialize $this:ident $serializer:ident as $from:ident [$($field:ident)*] []) => {
        serde::Serialize::serialize($from, $serializer)
    };
    (@serialize $this:ident $serializer:ident $code:literal [$($field:ident)*] []) => {
        $crate::codes::codes!(@object $this $serializer $code $($field: $field),*)
    };
    (@serialize $this:ident $serializer:ident $code:literal [$($field:ident)*] [{
        $($key:ident: $value:expr),*
    }]) => {
        $crate::codes::codes!(@object $this $serializer $code $($key: &$value),*)
    };
    (@object $this:ident $serializer:ident $code:literal $($key:ident: $value:expr),*) => {{
        let mut object = serde::Serializer::serialize_map($serializer, None)?;
        serde::ser::SerializeMap::serialize_entry(&mut object, "code", $code)?;
        serde::ser::SerializeMap::serialize_entry(
            &mut object,
            "message",
            &format_args!("{}", $this),
        )?;
        $(
            let key = $crate::codes::camel_case(stringify!($key));
            serde::ser::SerializeMap::serialize_entry(&mut object, &key, $value)?;
        )*
        serde::ser::SerializeMap::end(object)
    }};

    (@kind as $from:ident [$($field:ident)*] [] [] []) => { None };
    (@kind $code:literal [$($field:ident)*] [] [$($retry:expr)?] [$($status:expr)?]) => {
        $crate::codes::codes!(@kind $code [] [{ $($field)* }] [$($retry)?] [$($status)?])
    };
    (@kind $code:literal [$($field:ident)*] [{ $($key:ident)* }]
        [$($retry:expr)?] [$($status:expr)?]
    ) => {
        Some($crate::codes::Kind {
            code: $code,
            evidence: &[$(stringify!($key)),*],
            retry: &[$(stringify!($retry))?],
            status: &[$(stringify!($status))?],
        })
    };
}

pub(crate) use codes;

/// The name of a field as it is in JSON.
pub(crate) fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// A public error, for tests.
#[cfg(all(test, not(loom)))]
pub(crate) trait Coded: CodedError + Serialize + std::fmt::Display {
    const NAME: &'static str;
    /// One for each line; `None` if the code is that of the inner error.
    const KINDS: &'static [Option<Kind>];
}

/// What one line of an error says.
#[cfg(all(test, not(loom)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) code: &'static str,
    /// The names of the fields.
    pub(crate) evidence: &'static [&'static str],
    /// The verdict, unless a retry does not help.
    pub(crate) retry: &'static [&'static str],
    /// The status, unless it is that of the verdict.
    pub(crate) status: &'static [&'static str],
}

#[cfg(all(test, not(loom)))]
mod tests;
