//! A piece of a document, as it lies on a clipboard.

use serde::{Deserialize, Serialize};

use super::NodeSpec;

/// What was copied: nodes without ids, clipped at the ends of what was selected.
///
/// In JSON: `{"nodes": [{"type": "inline-text", "text": "lo"}], "openStart": true, "openEnd": false}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fragment {
    /// The nodes, in order.
    pub nodes: Vec<NodeSpec>,
    /// Whether the first node was clipped, so that when pasted it goes on what stands before it.
    #[serde(default)]
    pub open_start: bool,
    /// Whether the last node was clipped, so that what stands behind it goes on with it.
    #[serde(default)]
    pub open_end: bool,
}
