//! Ids of locks, owners and nodes.
//!
//! Every id prints and parses as one short string, and that string is its serde form.

use std::cmp;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::brief::Brief;
use crate::codes::codes;

/// An error: a string is not an id of the requested kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}", found = Brief(.found))]
pub struct ParseIdError {
    found: String,
    expected: &'static str,
}

codes! { inherent ParseIdError {
    Self { found, expected } => "idInvalid", 400;
}}

impl ParseIdError {
    /// Creates the error of a string that is not `expected`.
    #[doc(hidden)]
    pub fn new(found: &str, expected: &'static str) -> Self {
        Self {
            found: found.to_owned(),
            expected,
        }
    }
}

/// Serializes through `Display`, deserializes through `FromStr`.
macro_rules! serde_as_string {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                SmolStr::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A number that distinguishes this store from others, in this and other processes.
///
/// Random, because stores whose data meets later (one document imported into another, one log
/// replayed elsewhere) cannot coordinate their numbers.
#[doc(hidden)]
pub fn random_session() -> u32 {
    static FIRST: LazyLock<u32> = LazyLock::new(|| RandomState::new().hash_one(0) as u32);
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Within one process, all numbers differ until all are used.
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    FIRST.wrapping_add(call).max(1)
}

/// Identifies one lock request until its grant is released: `lock-<number>-<base36>`.
///
/// The number rises with every request and is never reused. The second part names the lock that
/// issued it, so ids of two stores in one process differ even if their numbers are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId {
    #[doc(hidden)]
    pub number: u64,
    #[doc(hidden)]
    pub lock: u32,
}

impl LockId {
    #[doc(hidden)]
    #[inline(always)]
    pub fn new(number: u64, lock: u32) -> Self {
        Self { number, lock }
    }

    /// Returns the rising number: of two ids of one store, the smaller one is the earlier request.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A u32 has at most seven digits in base 36.
        let mut digits = [0u8; 7];
        let mut start = digits.len();
        let mut rest = self.lock;
        loop {
            start -= 1;
            digits[start] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        write!(f, "lock-{}-", self.number)?;
        digits[start..]
            .iter()
            .try_for_each(|&digit| write!(f, "{}", char::from(digit)))
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LockId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let (number, lock) = text.strip_prefix("lock-")?.split_once('-')?;
            let id = Self {
                number: number.parse().ok()?,
                lock: u32::from_str_radix(lock, 36).ok()?,
            };
            // Only the canonical spelling: one lock, one string.
            (id.to_string() == text).then_some(id)
        };
        parse().ok_or_else(|| ParseIdError::new(text, "a lock id (`lock-<number>-<base36>`)"))
    }
}

serde_as_string!(LockId);

/// A number that rises with every grant of one lock, or with every claim in one inbox. Of two
/// holders, the later one has the greater token.
///
/// A holder can attach it to its writes. Storage can then reject a write with a smaller token than
/// the greatest one seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// How many bits count the grants of one open of a durable document. A store would have to
    /// grant its lock so often, without a commit, to reach the tokens of the next open.
    #[doc(hidden)]
    pub const COUNTER_BITS: u32 = 36;

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the upper part of the number: the number of the open of a
    /// durable document, or the epoch of its
    /// journal. Zero in a store in memory.
    ///
    /// ```
    /// let store = doclock::DataStore::new();
    /// let lease = store.leases().acquire("form", "ann", std::time::Duration::from_secs(60))?;
    /// assert_eq!(lease.fencing_token().epoch(), 0);
    /// # Ok::<(), doclock::lease::LeaseError>(())
    /// ```
    pub fn epoch(self) -> u64 {
        self.0 >> Self::COUNTER_BITS
    }

    /// The lower part of the number, which counts the grants of an epoch.
    #[doc(hidden)]
    pub fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }

    /// The token with these parts, if they have room.
    #[doc(hidden)]
    pub fn of_parts(epoch: u64, counter: u64) -> Option<Self> {
        let has_room = epoch >> (u64::BITS - Self::COUNTER_BITS) == 0;
        let token = Self(epoch.checked_shl(Self::COUNTER_BITS)? | counter);
        (has_room && token.counter() == counter).then_some(token)
    }
}

impl From<u64> for FencingToken {
    /// Converts a stored number back into a token.
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The owner of a request: a user, a window, a component. Any string is valid; requests may share
/// one.
///
/// ```
/// use doclock::OwnerId;
///
/// assert_eq!(OwnerId::from("window-1").as_str(), "window-1");
/// assert_eq!(OwnerId::default().as_str(), "unknown");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(SmolStr);

impl OwnerId {
    /// Returns the owner as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for OwnerId {
    /// Returns `unknown`, the default owner.
    fn default() -> Self {
        Self(SmolStr::new_static("unknown"))
    }
}

impl From<&str> for OwnerId {
    fn from(owner: &str) -> Self {
        Self(SmolStr::new(owner))
    }
}

impl From<String> for OwnerId {
    fn from(owner: String) -> Self {
        Self(owner.into())
    }
}

impl From<SmolStr> for OwnerId {
    /// Shares the memory of a long name.
    fn from(owner: SmolStr) -> Self {
        Self(owner)
    }
}

impl From<&String> for OwnerId {
    fn from(owner: &String) -> Self {
        owner.as_str().into()
    }
}

impl From<&OwnerId> for OwnerId {
    #[inline]
    fn from(owner: &OwnerId) -> Self {
        owner.clone()
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Brief(self.as_str()), f)
    }
}

/// Parses a number in the form that `Display` writes, so a string names at most one id.
#[doc(hidden)]
pub fn canonical<N: FromStr>(digits: &str) -> Option<N> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    (plain && !leading_zero).then(|| digits.parse().ok())?
}

/// Identifies one node: an id generated by a store (`<session>:<counter>`) or a custom id.
///
/// ```
/// use doclock::NodeId;
///
/// let named = NodeId::from("introduction");
/// assert_eq!(named.to_string(), "introduction");
/// assert!(!named.is_generated());
/// assert!(NodeId::from("7:42").is_generated());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub Repr);

/// Sixteen bytes: a document stores an id per node, per parent link and per child link. Each id has
/// one form, so equal ids have equal forms.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_debug_implementations)]
#[doc(hidden)]
pub enum Repr {
    Generated {
        session: u32,
        counter: u64,
    },
    /// A custom id that fits. Most do, and then a copy, a comparison and a hash read no other
    /// memory.
    Short(ShortText),
    /// A longer custom id. Boxed again to be a thin pointer.
    Long(Arc<Box<str>>),
}

/// A text of at most [`ShortText::MOST`] bytes, followed by zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(missing_debug_implementations)]
#[doc(hidden)]
pub struct ShortText {
    len: u8,
    bytes: [u8; Self::MOST],
}

impl ShortText {
    const MOST: usize = 14;

    #[inline]
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::MOST];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        let len = text.len() as u8;
        Some(Self { len, bytes })
    }

    #[inline]
    fn as_str(&self) -> &str {
        let text = self.bytes.get(..self.len.into()).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl Repr {
    /// The text of a custom id.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Generated { .. } => None,
            Self::Short(text) => Some(text.as_str()),
            Self::Long(text) => Some(text),
        }
    }
}

impl PartialOrd for Repr {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Generated ids come first, by their numbers; custom ids by their texts.
impl Ord for Repr {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        let numbers = |it: &Self| match it {
            Self::Generated { session, counter } => (*session, *counter),
            Self::Short(_) | Self::Long(_) => (0, 0),
        };
        let by_text = self.text().cmp(&other.text());
        by_text.then_with(|| numbers(self).cmp(&numbers(other)))
    }
}

impl Hash for Repr {
    /// Numbers and texts are hashed separately anyway, so no tag is needed.
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Self::Generated { session, counter } => (session, counter).hash(hasher),
            Self::Short(ShortText { len, bytes }) => {
                let mut words = [0; 16];
                words[..ShortText::MOST].copy_from_slice(bytes);
                words[ShortText::MOST] = *len;
                hasher.write_u128(u128::from_ne_bytes(words));
            }
            Self::Long(text) => text.hash(hasher),
        }
    }
}

impl NodeId {
    #[doc(hidden)]
    pub fn generated(session: u32, counter: u64) -> Self {
        Self(Repr::Generated { session, counter })
    }

    /// Returns whether the id has the form of generated ids.
    pub fn is_generated(&self) -> bool {
        matches!(self.0, Repr::Generated { .. })
    }

    /// Whether its text is in memory of its own, which copies of the id share.
    #[doc(hidden)]
    pub fn is_long(&self) -> bool {
        matches!(self.0, Repr::Long(_))
    }

    /// Whether it is the empty text. No node has this id, and no text is read as one.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.0.text() == Some("")
    }

    /// The size in bytes: two numbers, or a text.
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Repr::Generated { session, counter } => size_of_val(session) + size_of_val(counter),
            Repr::Short(text) => text.len.into(),
            Repr::Long(text) => text.len(),
        }
    }

    /// The text of a custom id.
    #[doc(hidden)]
    pub fn custom_text(&self) -> Option<&str> {
        self.0.text()
    }

    /// Reads an id in the form of generated ids.
    fn read_generated(text: &str) -> Option<Self> {
        text.as_bytes()
            .first()
            .filter(|byte| byte.is_ascii_digit())?;
        let (session, counter) = text.split_once(':')?;
        Some(Self::generated(canonical(session)?, canonical(counter)?))
    }
}

impl From<&str> for NodeId {
    fn from(text: &str) -> Self {
        Self::read_generated(text).unwrap_or_else(|| {
            Self(match ShortText::new(text) {
                Some(short) => Repr::Short(short),
                None => Repr::Long(Arc::new(text.into())),
            })
        })
    }
}

impl From<String> for NodeId {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for NodeId {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&NodeId> for NodeId {
    fn from(id: &NodeId) -> Self {
        id.clone()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Generated { session, counter } => write!(f, "{session}:{counter}"),
            Repr::Short(text) => f.write_str(text.as_str()),
            Repr::Long(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Brief(self), f)
    }
}

impl FromStr for NodeId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.is_empty() {
            return Err(ParseIdError::new(text, "a node id (it is empty)"));
        }
        Ok(text.into())
    }
}

serde_as_string!(NodeId);
