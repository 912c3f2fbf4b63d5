//! The codes of errors: stable names, and whether a retry may succeed.
//!
//! Each error also serializes as one shape of JSON object.

// The macro `codes` takes one line for each variant. Its patterns name every field, so a new field
// of an error does not compile until it is evidence as well.

use serde::Serialize;

#[doc(hidden)]
pub use crate::__codes as codes;
/// For the macro, so that its caller does not need the crate.
#[doc(hidden)]
pub use serde;

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
    /// `doclock::transaction::retry` repeats.
    Now,
}

impl Retry {
    /// Returns the status of HTTP for an error that has no other: 422, 503 or 409.
    pub fn http_status(self) -> u16 {
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

/// Gives an error a code, a verdict, a status and a JSON form. Each line is one of:
///
/// - `pattern => "code";`: the fields of the pattern are the evidence, and a retry does not help;
/// - `pattern => "code" { key: value };`: these values are the evidence instead;
/// - `pattern => "code" if retry;`: a [`Retry`], or whether a retry may succeed at once;
/// - `pattern => "code", 404;`: the status, where it is not that of the verdict;
/// - `pattern => as inner;`: the variant adds nothing to the error in it.
///
/// After `inherent`, the code, the verdict and the status are methods of the error; after a path in
/// parentheses, they are those of the trait there.
#[doc(hidden)]
#[macro_export]
macro_rules! __codes {
    (inherent $error:ty {$($lines:tt)*}) => {
        #[allow(unused_variables)]
        impl $error {
            $crate::codes::codes!(@methods (pub) () {$($lines)*});
        }
        $crate::codes::codes!(@forms [] $error {$($lines)*});
    };
    (($($coded:tt)+) $error:ty $([$generic:ident])? {$($lines:tt)*}) => {
        #[allow(unused_variables)]
        impl $(<$generic>)? $($coded)+ for $error {
            $crate::codes::codes!(@methods () (
                #[allow(unused_imports)]
                use $($coded)+ as _;
            ) {$($lines)*});
        }
        $crate::codes::codes!(@forms [$($generic)?] $error {$($lines)*});
    };

    (@methods ($($vis:tt)?) ($($import:tt)*) {$(
        $($path:ident)::+ $(($inner:ident))? $({ $($field:ident),* $(,)? })? =>
            $(as $from:ident)?
            $($code:literal $({ $($key:ident: $value:expr),* $(,)? })? $(if $retry:expr)?
                $(, $status:expr)?)?;
    )*}) => {
        /// Returns the stable name of the error, in camelCase: the `code` of the JSON form.
        ///
        /// A variant that only wraps another error has the code of that error.
        $($vis)? fn code(&self) -> &'static str {
            $($import)*
            match self {$(
                $($path)::+ $(($inner))? $({ $($field),* })? => {
                    $crate::codes::codes!(@code $(as $from)? $($code)?)
                }
            )*}
        }

        /// Returns whether and when a retry of the same call may succeed.
        $($vis)? fn retry(&self) -> $crate::codes::Retry {
            $($import)*
            match self {$(
                $($path)::+ $(($inner))? $({ $($field),* })? => {
                    $crate::codes::codes!(@retry $(as $from)? $($code $(if $retry)?)?)
                }
            )*}
        }

        /// Returns the status with which a server can answer a request over HTTP that failed
        /// with this error.
        $($vis)? fn http_status(&self) -> u16 {
            $($import)*
            match self {$(
                $($path)::+ $(($inner))? $({ $($field),* })? => {
                    $crate::codes::codes!(
                        @status $(as $from)? $($code $(if $retry)? $(, $status)?)?
                    )
                }
            )*}
        }
    };

    (@forms [$($generic:ident)?] $error:ty {$(
        $($path:ident)::+ $(($inner:ident))? $({ $($field:ident),* $(,)? })? =>
            $(as $from:ident)?
            $($code:literal $({ $($key:ident: $value:expr),* $(,)? })? $(if $retry:expr)?
                $(, $status:expr)?)?;
    )*}) => {
        /// Serializes as an object: `code`, `message`, and the evidence in camelCase.
        #[allow(unused_variables)]
        impl $(<$generic>)? $crate::codes::serde::Serialize for $error {
            fn serialize<S: $crate::codes::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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

        #[doc(hidden)]
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
        $crate::codes::serde::Serialize::serialize($from, $serializer)
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
        let mut object = $crate::codes::serde::Serializer::serialize_map($serializer, None)?;
        $crate::codes::serde::ser::SerializeMap::serialize_entry(&mut object, "code", $code)?;
        $crate::codes::serde::ser::SerializeMap::serialize_entry(
            &mut object,
            "message",
            &format_args!("{}", $this),
        )?;
        $(
            let key = $crate::codes::camel_case(stringify!($key));
            $crate::codes::serde::ser::SerializeMap::serialize_entry(&mut object, &key, $value)?;
        )*
        $crate::codes::serde::ser::SerializeMap::end(object)
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

/// The name of a field as it is in JSON.
#[doc(hidden)]
pub fn camel_case(field: &str) -> String {
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
#[doc(hidden)]
pub trait Coded: Serialize + std::fmt::Display {
    const NAME: &'static str;
    /// One for each line; `None` if the code is that of the inner error.
    const KINDS: &'static [Option<Kind>];
}

/// What one line of an error says.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub code: &'static str,
    /// The names of the fields.
    pub evidence: &'static [&'static str],
    /// The verdict, unless a retry does not help.
    pub retry: &'static [&'static str],
    /// The status, unless it is that of the verdict.
    pub status: &'static [&'static str],
}
