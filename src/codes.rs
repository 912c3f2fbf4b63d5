//! The common interface of all errors: a stable code, whether a retry may succeed, and a status of
//! HTTP.
//!
//! Every error also serializes as one shape of JSON object. The page
//! [errors](crate::guide::errors) lists all codes.

mod list;

use std::error::Error;

use serde::Serialize;
use serde_json::{Value, json};

use list::coded;
pub use list::known;
pub(crate) use list::retry_of;

#[doc(inline)]
pub use crate::__codes as codes;
#[doc(inline)]
pub use crate::brief::Brief;
pub(crate) use doclock_common::codes::Coded;
pub use doclock_common::codes::Retry;
#[doc(hidden)]
pub use doclock_common::codes::codes as codes_as;

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

/// What a server answers to a request that failed: a status of HTTP, and a JSON body.
///
/// The body is the JSON form of the error, with its [verdict](CodedError::retry) as `retry`: `no`,
/// `later` or `now`. Every error of this crate converts to it, and each error with [`codes!`], so a
/// function that returns it can use `?` on all of them. Evidence with the name `retry` is replaced.
/// Serializes as its body.
///
/// ```
/// use doclock::{DataStore, Editor, codes::ErrorResponse, transaction::parse_operations};
/// use serde_json::{Value, json};
///
/// fn answer(editor: &Editor, script: &str) -> Result<Value, ErrorResponse> {
///     let result = editor.execute(parse_operations(script)?)?;
///     Ok(json!(result))
/// }
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let script = json!([{"type": "setText", "payload": {"nodeId": "title", "text": "A"}}]);
/// let refused = answer(&editor, &script.to_string()).unwrap_err();
/// assert_eq!(refused.status, 409);
/// assert_eq!(refused.body["code"], "operationFailed");
/// assert_eq!(refused.body["retry"], "no");
/// assert_eq!(answer(&editor, "no script").unwrap_err().status, 400);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct ErrorResponse {
    /// The status of HTTP: [`CodedError::http_status`].
    #[serde(skip)]
    pub status: u16,
    /// The body, a JSON object.
    pub body: Value,
}

impl<E: CodedError + Serialize> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        let code = error.code();
        let mut body = serde_json::to_value(&error).unwrap_or_else(|_| json!({ "code": code }));
        if let Value::Object(fields) = &mut body {
            fields.insert("retry".to_owned(), json!(error.retry()));
        }
        let status = error.http_status();
        Self { status, body }
    }
}

/// Implements [`CodedError`] and serde's `Serialize` for an error of one's own.
///
/// There is one line for each variant. Its pattern names all fields of the variant; they are the
/// evidence in the JSON form, beside `code` and `message`. The code may be followed by:
///
/// - `{ key: value }`: these values are the evidence instead of the fields.
/// - `if retry`: a [`Retry`], or whether a retry may succeed at once. Without it, none helps.
/// - `, 404`: the status, if it is not the one that [`CodedError::http_status`] derives.
///
/// `Self::Edit(cause) => as cause;` takes everything from the error in the variant.
///
/// ```
/// use doclock::codes::{Brief, CodedError, Retry, codes};
///
/// #[derive(Debug, thiserror::Error)]
/// enum FeedError {
///     #[error("entry {entry} has no title")]
///     Untitled { entry: usize },
///     #[error("there is no answer from {}", Brief(.address))]
///     NoAnswer { address: String },
/// }
///
/// codes! { FeedError {
///     Self::Untitled { entry } => "feedUntitled";
///     Self::NoAnswer { address } => "feedNoAnswer" if Retry::Later;
/// }}
///
/// let error = FeedError::NoAnswer { address: "example.org".to_owned() };
/// assert_eq!((error.code(), error.http_status()), ("feedNoAnswer", 503));
/// assert_eq!(serde_json::to_value(error)?, serde_json::json!({
///     "code": "feedNoAnswer",
///     "message": "there is no answer from example.org",
///     "address": "example.org",
/// }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __codes {
    ($($error:tt)*) => {
        $crate::codes::codes_as! { ($crate::codes::CodedError) $($error)* }
    };
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
