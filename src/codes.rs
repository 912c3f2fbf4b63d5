//! The common interface of all public errors: a stable code, whether a retry may succeed, and one
//! JSON form.
//!
//! [`codes`] takes one line for each variant and implements `code`, `is_transient` and `Serialize`.
//! Its patterns name every field, so a new field of an error does not compile until it is evidence
//! as well.

/// Gives an error a code, a verdict and a JSON form. Each line is one of:
///
/// - `pattern => "code";`: the fields of the pattern are the evidence, and a retry does not help;
/// - `pattern => "code" { key: value };`: these values are the evidence instead;
/// - `pattern => "code" if transient;`: a retry helps if the expression is true;
/// - `pattern => as inner;`: the variant adds nothing to the error in it.
macro_rules! codes {
    ($error:ty $([$generic:ident])? {$(
        $($path:ident)::+ $(($inner:ident))? $({ $($field:ident),* $(,)? })? =>
            $(as $from:ident)?
            $($code:literal $({ $($key:ident: $value:expr),* $(,)? })? $(if $transient:expr)?)?;
    )*}) => {
        #[allow(unused_variables)]
        impl $(<$generic>)? $error {
            /// Returns the stable name of the error, in camelCase: the `code` of the JSON form.
            ///
            /// A variant that only wraps another error has the code of that error. The page
            /// [errors](crate::guide::errors) lists all codes with their evidence.
            pub fn code(&self) -> &'static str {
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(@code $(as $from)? $($code)?)
                    }
                )*}
            }

            /// Returns whether a retry of the same call from its start may succeed: the call lost a
            /// conflict with concurrent changes.
            ///
            /// A timeout, a full queue and a request that does not wait are not transient, because
            /// the caller has set these limits. The page [errors](crate::guide::errors) lists for
            /// each code what a retry needs.
            pub fn is_transient(&self) -> bool {
                match self {$(
                    $($path)::+ $(($inner))? $({ $($field),* })? => {
                        $crate::codes::codes!(@transient $(as $from)? $($code $(if $transient)?)?)
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
                    [$($($field)*)?] [$($({ $($key)* })?)?] [$($($transient)?)?]
                )
            ),*];

            fn verdict(&self) -> (&'static str, bool) {
                (self.code(), self.is_transient())
            }
        }
    };

    (@code as $from:ident) => { $from.code() };
    (@code $code:literal) => { $code };

    (@transient as $from:ident) => { $from.is_transient() };
    (@transient $code:literal) => { false };
    (@transient $code:literal if $transient:expr) => { $transient };

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

    (@kind as $from:ident [$($field:ident)*] [] []) => { None };
    (@kind $code:literal [$($field:ident)*] [] [$($transient:expr)?]) => {
        $crate::codes::codes!(@kind $code [] [{ $($field)* }] [$($transient)?])
    };
    (@kind $code:literal [$($field:ident)*] [{ $($key:ident)* }] [$($transient:expr)?]) => {
        Some($crate::codes::Kind {
            code: $code,
            evidence: &[$(stringify!($key)),*],
            transient: &[$(stringify!($transient))?],
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
pub(crate) trait Coded: serde::Serialize + std::fmt::Display {
    const NAME: &'static str;
    /// One for each line; `None` if the code is that of the inner error.
    const KINDS: &'static [Option<Kind>];

    /// The code, and whether the error is transient.
    fn verdict(&self) -> (&'static str, bool);
}

/// The evidence of an error code.
#[cfg(all(test, not(loom)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) code: &'static str,
    /// The names of the fields.
    pub(crate) evidence: &'static [&'static str],
    /// The condition under which it is transient, if any.
    pub(crate) transient: &'static [&'static str],
}

#[cfg(all(test, not(loom)))]
mod tests;
