//! Reading the saved form of a document, node by node.

use std::fmt;
use std::ops::ControlFlow;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::assemble::{DocumentHead, LARGEST, NodeTable};
use super::numbering::SessionNumbers;
use super::progress::Reporter;
use super::save::{FIELDS, FORMAT, Tokens};
use super::{Snapshot, SnapshotProgress};
use crate::id::NodeId;
use crate::{Node, value};

impl Snapshot {
    /// Deserializes a document and reports the progress.
    ///
    /// Does what [`Deserialize`] does, and calls `progress` before the first node, after each
    /// 1,024th and after the last. If the callback returns [`ControlFlow::Break`], the load ends
    /// with an error of the deserializer. The nodes are checked after the last call. If the
    /// callback panics, nothing remains of the load.
    ///
    /// ```
    /// use doclock::{DataStore, Snapshot};
    /// use std::ops::ControlFlow;
    ///
    /// let saved = serde_json::to_vec(&DataStore::new().snapshot())?;
    /// let mut json = serde_json::Deserializer::from_slice(&saved);
    /// let snapshot = Snapshot::load(&mut json, |progress| {
    ///     match progress.nodes > 1_000_000 {
    ///         true => ControlFlow::Break(()),
    ///         false => ControlFlow::Continue(()),
    ///     }
    /// })?;
    /// json.end()?;
    /// assert!(snapshot.is_empty());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An error of the deserializer: the input is not the saved form of a document, or the document
    /// is not valid. A document that fails [`check`](crate::check()) has the message of
    /// its [`IntegrityError`](crate::IntegrityError).
    pub fn load<'de, D: Deserializer<'de>>(
        deserializer: D,
        progress: impl FnMut(SnapshotProgress) -> ControlFlow<()>,
    ) -> Result<Self, D::Error> {
        let loader = Loader(Reporter::new(None, progress));
        deserializer.deserialize_struct("Snapshot", &FIELDS, loader)
    }
}

/// Deserializes the form that [`Snapshot`] serializes as, node by node, and checks the document.
/// The fields can be in any order. The format must be self-describing, such as JSON, because
/// attributes have values of any type.
impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::load(deserializer, |_| ControlFlow::Continue(()))
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum SnapshotField {
    Format,
    Version,
    Root,
    Tokens,
    Session,
    Len,
    Nodes,
}

struct Loader<P>(Reporter<P>);

impl<'de, P: FnMut(SnapshotProgress) -> ControlFlow<()>> Visitor<'de> for Loader<P> {
    type Value = Snapshot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a saved document")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Snapshot, A::Error> {
        let (mut format, mut version, mut root) = (None, None, None);
        let (mut tokens, mut session, mut len, mut nodes) = (None, None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                SnapshotField::Format => {
                    let found = map.next_value::<u32>()?;
                    if found != FORMAT {
                        return Err(A::Error::custom(format_args!(
                            "the document is saved in format {found}, and only {FORMAT} is known"
                        )));
                    }
                    fill(&mut format, "format", found)?;
                }
                SnapshotField::Version => fill(&mut version, "version", map.next_value::<u64>()?)?,
                SnapshotField::Root => {
                    fill(&mut root, "root", map.next_value::<Option<NodeId>>()?)?
                }
                SnapshotField::Tokens => fill(&mut tokens, "tokens", map.next_value::<Tokens>()?)?,
                SnapshotField::Session => {
                    fill(&mut session, "session", map.next_value::<SessionNumbers>()?)?;
                }
                SnapshotField::Len => {
                    let found = map.next_value::<usize>()?;
                    fill(&mut len, "len", found)?;
                    self.0.expect(found);
                }
                SnapshotField::Nodes => {
                    let found = map.next_value_seed(NodeListVisitor(&mut self.0))?;
                    fill(&mut nodes, "nodes", found)?;
                }
            }
        }
        given(format, "format")?;
        let head = DocumentHead {
            version: given(version, "version")?,
            root: given(root, "root")?,
            tokens: given(tokens, "tokens")?,
            session: given(session, "session")?,
        };
        head.check(LARGEST).map_err(A::Error::custom)?;
        let len = given(len, "len")?;
        let nodes: NodeTable = given(nodes, "nodes")?;
        if nodes.len() != len {
            return Err(A::Error::custom(format_args!(
                "the document should have {len} nodes, and has {}",
                nodes.len()
            )));
        }
        Snapshot::assemble(head, nodes).map_err(A::Error::custom)
    }
}

fn fill<T, E: Error>(field: &mut Option<T>, name: &str, value: T) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(value::duplicate(name)),
    }
}

fn given<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// Reads the nodes. Each is complete by itself; how they fit together is checked at the end.
struct NodeListVisitor<'a, P>(&'a mut Reporter<P>);

impl<'de, P: FnMut(SnapshotProgress) -> ControlFlow<()>> DeserializeSeed<'de>
    for NodeListVisitor<'_, P>
{
    type Value = NodeTable;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeTable, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, P: FnMut(SnapshotProgress) -> ControlFlow<()>> Visitor<'de> for NodeListVisitor<'_, P> {
    type Value = NodeTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NodeTable, A::Error> {
        let Self(reporter) = self;
        let mut nodes = NodeTable::default();
        reporter.report().map_err(A::Error::custom)?;
        while let Some(node) = list.next_element::<Node>()? {
            nodes.insert(node).map_err(A::Error::custom)?;
            reporter.count().map_err(A::Error::custom)?;
        }
        reporter.report().map_err(A::Error::custom)?;
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::View;
    use crate::id::Repr;

    #[test]
    fn a_custom_id_has_one_copy() {
        let ids = ["the first long id", "the second long id"];
        let nodes = format!(
            r#"[{{"id": "{0}", "type": "x", "children": ["{1}"]}}, {{"id": "{1}", "type": "x", "parent": "{0}"}}]"#,
            ids[0], ids[1]
        );
        let tokens = r#"{"lock": 0, "lease": 0, "claim": 0}"#;
        let session = r#"{"id": 1, "transactions": 0, "nodes": 0}"#;
        let form = format!(
            r#"{{"format": 1, "version": 1, "root": "{}", "tokens": {tokens}, "session": {session}, "len": 2, "nodes": {nodes}}}"#,
            ids[0]
        );
        let snapshot: Snapshot = serde_json::from_str(&form).unwrap();
        let [a, b] = ids.map(|id| snapshot.node(id).unwrap());
        let is_copy = |one: &NodeId, other: &NodeId| match (&one.0, &other.0) {
            (Repr::Long(one), Repr::Long(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        assert!(is_copy(&a.id, b.parent().unwrap()));
        assert!(is_copy(&b.id, a.children.get(0).unwrap()));
    }
}
