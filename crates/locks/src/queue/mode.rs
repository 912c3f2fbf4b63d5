//! The modes of granular locking: how much of a tree a lock takes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The mode in which a node is locked.
///
/// Five modes are those of granular locking (Gray, Lorie, Putzolu and Traiger, *Granularity of
/// Locks and Degrees of Consistency in a Shared Data Base*, 1976); they apply to a subtree. Two
/// modes apply to a node alone: its type, attributes, text, marks and list of children. A lock on a
/// node takes the intentions on its ancestors automatically, so callers seldom need the intention
/// modes.
///
/// Two locks of different holders exclude each other unless marked:
///
/// | | `IS` | `IX` | `NS` | `NX` | `S` | `SIX` | `X` |
/// |---|---|---|---|---|---|---|---|
/// | `IntentionShared` | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ | |
/// | `IntentionExclusive` | ✓ | ✓ | ✓ | ✓ | | | |
/// | `NodeShared` | ✓ | ✓ | ✓ | | ✓ | ✓ | |
/// | `NodeExclusive` | ✓ | ✓ | | | | | |
/// | `Shared` | ✓ | | ✓ | | ✓ | | |
/// | `SharedIntentionExclusive` | ✓ | | ✓ | | | | |
/// | `Exclusive` | | | | | | | |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LockMode {
    /// A descendant is read.
    IntentionShared,
    /// A descendant is written.
    IntentionExclusive,
    /// The node alone is read.
    NodeShared,
    /// The node alone is written.
    NodeExclusive,
    /// The subtree is read.
    Shared,
    /// The subtree is read, and a descendant is written.
    SharedIntentionExclusive,
    /// The subtree is written.
    Exclusive,
}

impl LockMode {
    /// Every mode, the strongest first.
    const ALL: [Self; 7] = [
        Self::Exclusive,
        Self::SharedIntentionExclusive,
        Self::Shared,
        Self::NodeExclusive,
        Self::NodeShared,
        Self::IntentionExclusive,
        Self::IntentionShared,
    ];
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IntentionShared => "intention shared",
            Self::IntentionExclusive => "intention exclusive",
            Self::NodeShared => "node shared",
            Self::NodeExclusive => "node exclusive",
            Self::Shared => "shared",
            Self::SharedIntentionExclusive => "shared, intention exclusive",
            Self::Exclusive => "exclusive",
        })
    }
}

/// The rights of one member at one node: a union of modes, as a set of elementary rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Rights(u8);

impl Rights {
    const READ_BELOW: u8 = 1;
    const WRITE_BELOW: u8 = 2;
    const READ_NODE: u8 = 4;
    const WRITE_NODE: u8 = 8;
    const READ_ALL: u8 = 16;
    const WRITE_ALL: u8 = 32;
    pub(super) const COUNT: usize = 6;

    /// The rights that each right excludes for others, in the order of the bits.
    const EXCLUDED: [u8; Self::COUNT] = [
        Self::WRITE_ALL,
        Self::READ_ALL | Self::WRITE_ALL,
        Self::WRITE_NODE | Self::WRITE_ALL,
        Self::READ_NODE | Self::WRITE_NODE | Self::READ_ALL | Self::WRITE_ALL,
        Self::WRITE_BELOW | Self::WRITE_NODE | Self::WRITE_ALL,
        u8::MAX,
    ];

    pub(crate) const NONE: Self = Self(0);

    /// What each set of rights excludes for others.
    const EXCLUDED_BY: [u8; 1 << Self::COUNT] = {
        let mut excluded = [0; 1 << Self::COUNT];
        let mut set = 1;
        while set < excluded.len() {
            let lowest = set.trailing_zeros() as usize;
            excluded[set] = excluded[set & (set - 1)] | Self::EXCLUDED[lowest];
            set += 1;
        }
        excluded
    };

    pub(super) fn bits(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let lowest = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (lowest < Self::COUNT).then_some(lowest)
        })
    }

    /// Returns one if it has a right, and else zero.
    pub(super) fn has(self, bit: usize) -> u32 {
        u32::from(self.0 >> bit & 1)
    }

    pub(super) fn set(&mut self, bit: usize, on: bool) {
        self.0 = self.0 & !(1 << bit) | u8::from(on) << bit;
    }

    /// Whether two members cannot have these rights at one time.
    pub fn exclude(self, other: Self) -> bool {
        Self::EXCLUDED_BY[usize::from(self.0)] & other.0 != 0
    }

    pub fn contain(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the rights to take on every ancestor.
    pub fn intention(self) -> Self {
        let writes = Self::WRITE_BELOW | Self::WRITE_NODE | Self::WRITE_ALL;
        match self.0 & writes {
            0 => LockMode::IntentionShared.into(),
            _ => LockMode::IntentionExclusive.into(),
        }
    }

    /// Returns the rights on every descendant that these rights imply.
    pub fn extends_below(self) -> Self {
        match self {
            all if all.contain(LockMode::Exclusive.into()) => all,
            read if read.contain(LockMode::Shared.into()) => LockMode::Shared.into(),
            _ => Self::NONE,
        }
    }

    /// Returns the strongest mode that these rights include.
    pub fn mode(self) -> LockMode {
        let contained = |mode: &LockMode| self.contain((*mode).into());
        let strongest = LockMode::ALL.into_iter().find(contained);
        strongest.unwrap_or(LockMode::IntentionShared)
    }
}

impl From<LockMode> for Rights {
    #[inline]
    fn from(mode: LockMode) -> Self {
        Self(match mode {
            LockMode::IntentionShared => Self::READ_BELOW,
            LockMode::IntentionExclusive => Self::READ_BELOW | Self::WRITE_BELOW,
            LockMode::NodeShared => Self::READ_BELOW | Self::READ_NODE,
            LockMode::NodeExclusive => {
                Self::READ_BELOW | Self::WRITE_BELOW | Self::READ_NODE | Self::WRITE_NODE
            }
            LockMode::Shared => Self::READ_BELOW | Self::READ_NODE | Self::READ_ALL,
            LockMode::SharedIntentionExclusive => {
                Self::READ_BELOW | Self::WRITE_BELOW | Self::READ_NODE | Self::READ_ALL
            }
            LockMode::Exclusive => (1 << Self::COUNT) - 1,
        })
    }
}
