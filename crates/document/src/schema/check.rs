//! Checks documents against their schema.

use std::sync::Arc;

use smol_str::SmolStr;

use super::automaton::Symbol;
use super::content::{ChildTypes, CompiledContent, Misfit};
use super::error::SchemaViolation;
use super::touched::{TouchedChildren, TouchedMarks, TouchedNodes};
use super::{Schema, TypeRules};
use crate::id::NodeId;
use crate::steps::step;
use crate::{Change, Mark, Marks, Node, View};

impl Schema {
    /// Checks the result of changes to a valid document: `base` is the document before `changes`,
    /// `after` the document after them.
    ///
    /// The check visits changed nodes, and the children that were added or removed, with a few
    /// neighbours. So its cost grows with the changes, not with the document; the
    /// [page of schemas](https://docs.rs/doclock/latest/doclock/guide/schema/index.html#what-it-costs)
    /// lists the exceptions. Detached nodes are checked like others.
    ///
    /// # Errors
    ///
    /// The first [`SchemaViolation`] found. If `base` is invalid, or if the changes do not lead
    /// from `base` to `after`, some violations may be missed.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, schema::{NodeType, Schema}};
    ///
    /// // A store without a schema.
    /// let store = DataStore::new();
    /// let base = store.snapshot();
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("paragraph").with_id("p").with_text("Hello"))?;
    ///
    /// let schema = Schema::builder().node("paragraph", NodeType::new().text(false)).build()?;
    /// let violation = schema.check(&base, &transaction, transaction.changes()).unwrap_err();
    /// assert_eq!(violation.to_string(), "node p has text, which its type paragraph does not allow");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(
        &self,
        base: &impl View,
        after: &impl View,
        changes: &[Change],
    ) -> Result<(), SchemaViolation> {
        let touched = TouchedNodes::by(changes, base, after);
        self.check_touched(&touched, after)?;
        for (node, list) in touched.lists(base, after, |_| true) {
            self.check_list(node, list, base, after)?;
        }
        self.check_root(after)
    }

    /// Checks the children of these nodes only, and only where the changes concern them. The
    /// arguments are those of [`check`](Self::check).
    ///
    /// In a transaction of several edits this finds a misplaced child at once, while nodes that a
    /// later edit completes may still be incomplete.
    ///
    /// # Errors
    ///
    /// The first [`SchemaViolation`] found.
    ///
    /// ```
    /// use doclock::{DataStore, document::NodeSpec, schema::{NodeType, Schema}};
    ///
    /// let page = NodeType::new().content("title");
    /// let types = Schema::builder().node("page", page).node("title", NodeType::new().text(true));
    /// let schema = types.build()?;
    ///
    /// let store = DataStore::new();
    /// let mut transaction = store.begin("ann")?;
    /// let page = transaction.create(NodeSpec::new("page"))?;
    /// let (base, changes) = (transaction.base(), transaction.changes());
    /// assert!(schema.check_children(&[page], base, &transaction, changes).is_err());
    /// assert!(schema.check_children(&[], base, &transaction, changes).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_children(
        &self,
        nodes: &[NodeId],
        base: &impl View,
        after: &impl View,
        changes: &[Change],
    ) -> Result<(), SchemaViolation> {
        let touched = TouchedNodes::by(changes, base, after);
        let mut lists = touched.lists(base, after, |id| nodes.contains(id));
        lists.try_for_each(|(node, list)| self.check_list(node, list, base, after))
    }

    /// Checks a whole document. The check visits each node once for itself and once as a child.
    ///
    /// # Errors
    ///
    /// A [`SchemaViolation`]. If there are several, which one is returned is unspecified.
    pub fn check_all(&self, document: &impl View) -> Result<(), SchemaViolation> {
        for node in document.nodes() {
            self.check_node(node, true)?;
            self.check_marks(node, document)?;
            self.check_list(node, TouchedChildren::All, document, document)?;
        }
        self.check_root(document)
    }

    /// Checks touched nodes without their children.
    pub(super) fn check_touched(
        &self,
        touched: &TouchedNodes<'_>,
        after: &impl View,
    ) -> Result<(), SchemaViolation> {
        for (node, attributes, marks) in touched.nodes(after) {
            self.check_node(node, attributes)?;
            match marks {
                TouchedMarks::All => self.check_marks(node, after)?,
                TouchedMarks::Added(lists) => {
                    // A later change may have removed the mark again.
                    let mut added = lists.iter().flat_map(|marks| marks.iter());
                    if !added.all(|mark| self.allows(node, mark, after)) {
                        self.check_marks(node, after)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks a node without its marks and children.
    fn check_node(&self, node: &Node, attributes: bool) -> Result<(), SchemaViolation> {
        let rules = self.rules_of(node)?;
        let (id, kind) = (&node.id, &node.kind);
        if attributes {
            rules.attributes.check(&node.attributes).map_err(|fault| {
                let (id, kind) = (id.clone(), kind.clone());
                SchemaViolation::Attribute { id, kind, fault }
            })?;
        }
        if !rules.text && !node.text.is_empty() {
            let (id, kind) = (id.clone(), kind.clone());
            return Err(SchemaViolation::TextNotAllowed { id, kind });
        }
        Ok(())
    }

    /// Checks all marks of a node.
    fn check_marks(&self, node: &Node, view: &impl View) -> Result<(), SchemaViolation> {
        let rules = self.rules_of(node)?;
        node.marks
            .iter()
            .inspect(|_| step())
            .try_for_each(|mark| self.check_mark(node, rules, mark))?;
        let parent = node.parent.as_ref().filter(|_| !node.marks.is_empty());
        match parent.and_then(|parent| view.node(parent)) {
            Some(parent) => allow_marks(parent, self.rules_of(parent)?, node),
            None => Ok(()),
        }
    }

    /// Whether a node may have a mark.
    fn allows(&self, node: &Node, mark: &Mark, view: &impl View) -> bool {
        let parent = node.parent.as_ref().and_then(|parent| view.node(parent));
        self.rules_of(node)
            .is_ok_and(|rules| self.check_mark(node, rules, mark).is_ok())
            && parent.is_none_or(|parent| self.allows_mark(&parent.kind, &mark.kind))
    }

    /// Checks a mark that a node is to be given, with the defaults of its absent attributes.
    pub(crate) fn check_new_mark(&self, node: &Node, mark: &Mark) -> Result<(), SchemaViolation> {
        let mut mark = mark.clone();
        self.complete_marks(std::slice::from_mut(&mut mark));
        self.check_mark(node, self.rules_of(node)?, &mark)
    }

    fn check_mark(
        &self,
        node: &Node,
        rules: &TypeRules,
        mark: &Mark,
    ) -> Result<(), SchemaViolation> {
        let of_mark = self.marks.get(&mark.kind);
        let of_mark = of_mark.ok_or_else(|| unknown_mark(node.id(), mark))?;
        if !rules.allows(&mark.kind) {
            return Err(mark_not_allowed(node, mark));
        }
        let result = of_mark.attributes.check(&mark.attributes);
        result.map_err(|fault| SchemaViolation::MarkAttribute {
            id: node.id.clone(),
            mark: mark.kind.clone(),
            fault,
        })
    }

    /// The nodes whose children are not what their types require after changes. The arguments are
    /// those of [`check`](Self::check).
    pub(crate) fn misfits(
        &self,
        base: &impl View,
        after: &impl View,
        changes: &[Change],
    ) -> Vec<NodeId> {
        let touched = TouchedNodes::by(changes, base, after);
        let lists = touched.lists(base, after, |_| true);
        let misfits = lists.filter(|(node, list)| {
            let rules = self.rules(&node.kind);
            rules.is_some_and(|rules| {
                let content = &rules.content;
                self.check_order(content, node, list, base, after).is_err()
            })
        });
        misfits.map(|(node, _)| node.id.clone()).collect()
    }

    /// Checks the types of the children of a node, and their order.
    fn check_order(
        &self,
        content: &CompiledContent,
        node: &Node,
        list: &TouchedChildren<'_>,
        base: &impl View,
        after: &impl View,
    ) -> Result<(), Misfit> {
        let new = |index| self.symbol_of_child(after, node, index);
        let new = ChildTypes {
            len: node.children.len(),
            symbol: &new,
        };
        match list {
            TouchedChildren::Same => Ok(()),
            TouchedChildren::All => content.check(&new),
            TouchedChildren::Edited(before, kept) => {
                let old = |index| self.symbol_of_child(base, before, index);
                let old = ChildTypes {
                    len: before.children.len(),
                    symbol: &old,
                };
                content.recheck(&old, &new, *kept)
            }
        }
    }

    pub(super) fn check_list(
        &self,
        node: &Node,
        list: TouchedChildren<'_>,
        base: &impl View,
        after: &impl View,
    ) -> Result<(), SchemaViolation> {
        let rules = self.rules_of(node)?;
        let content = &rules.content;
        self.check_order(content, node, &list, base, after)
            .map_err(|misfit| misplaced(node, content.source(), misfit, after))?;
        if rules.marks.is_none() {
            return Ok(());
        }
        let all = node.children.len();
        let changed = match list {
            TouchedChildren::Same => 0..0,
            TouchedChildren::All => 0..all,
            TouchedChildren::Edited(_, kept) => kept.prefix..all - kept.suffix,
        };
        for index in changed {
            step();
            let child = node.children.get(index).and_then(|child| after.node(child));
            child.map_or(Ok(()), |child| allow_marks(node, rules, child))?;
        }
        Ok(())
    }

    fn symbol_of_child(&self, view: &impl View, node: &Node, index: usize) -> Option<Symbol> {
        let child = view.node(node.children.get(index)?)?;
        self.symbol(&child.kind)
    }

    pub(super) fn check_root(&self, document: &impl View) -> Result<(), SchemaViolation> {
        let root = document.root().and_then(|id| document.node(id));
        match (root, &self.spec.root) {
            (Some(root), Some(expected)) if root.kind != *expected => Err(SchemaViolation::Root {
                id: root.id.clone(),
                kind: root.kind.clone(),
                expected: expected.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn rules_of(&self, node: &Node) -> Result<&TypeRules, SchemaViolation> {
        self.rules(&node.kind)
            .ok_or_else(|| unknown_type(node.id(), &node.kind))
    }
}

/// Checks before a change is made.
impl Schema {
    /// Rejects a change with a type or mark that the schema does not have: no later change can fix
    /// that.
    #[doc(hidden)]
    pub fn check_names(&self, change: &Change) -> Result<(), SchemaViolation> {
        let known = |id, kind| match self.numbers.contains_key(kind) {
            true => Ok(()),
            false => Err(unknown_type(id, kind)),
        };
        let marks_known = |id, marks: &Marks| {
            let unknown = marks.iter().find(|mark| !self.has_mark(&mark.kind));
            unknown.map_or(Ok(()), |mark| Err(unknown_mark(id, mark)))
        };
        match change {
            Change::InsertSubtree { nodes, .. } => nodes.iter().try_for_each(|node| {
                known(&node.id, &node.kind)?;
                marks_known(&node.id, &node.marks)
            }),
            Change::SetType { id, after, .. } => known(id, after),
            Change::SplitNode { right, .. } => known(&right.id, &right.kind),
            Change::SetMarks { id, marks }
            | Change::SpliceText {
                id,
                marks: Some(marks),
                ..
            } => marks_known(id, &marks.added),
            _ => Ok(()),
        }
    }

    /// Whether it has a kind of mark.
    pub(crate) fn has_mark(&self, mark: &str) -> bool {
        self.marks.contains_key(mark)
    }

    /// Whether a mark excludes another.
    #[doc(hidden)]
    pub fn excludes(&self, mark: &str, other: &str) -> bool {
        match self.marks.get(mark) {
            Some(rules) => rules
                .excludes
                .as_ref()
                .is_none_or(|kinds| kinds.contains(other)),
            None => mark == other,
        }
    }

    /// Whether nodes of a type, or texts in them, may have a mark.
    #[doc(hidden)]
    pub fn allows_mark(&self, kind: &str, mark: &str) -> bool {
        self.rules(kind).is_none_or(|rules| rules.allows(mark))
    }

    /// Whether marks of a kind stand for leaves, if the schema says so.
    #[doc(hidden)]
    pub fn is_leaf(&self, mark: &str) -> Option<bool> {
        self.marks.get(mark).and_then(|rules| rules.leaf)
    }

    /// Returns whether nodes of a type may have an attribute. A type that the schema does not have
    /// may have any.
    pub fn allows_attribute(&self, kind: &str, attribute: &str) -> bool {
        let rules = self.rules(kind);
        rules.is_none_or(|rules| rules.attributes.takes(attribute))
    }

    /// Returns whether marks of a kind may have an attribute. A kind that the schema does not have
    /// may have any.
    pub fn allows_mark_attribute(&self, kind: &str, attribute: &str) -> bool {
        let rules = self.marks.get(kind);
        rules.is_none_or(|rules| rules.attributes.takes(attribute))
    }

    /// The state of the children of a node of this type before the first one.
    #[doc(hidden)]
    pub fn first_state(&self, kind: &str) -> Option<u32> {
        Some(self.rules(kind)?.content.start())
    }

    /// The state after a child; `None` if it does not fit there.
    #[doc(hidden)]
    pub fn next_state(&self, kind: &str, state: u32, child: &str) -> Option<u32> {
        step();
        self.rules(kind)?.content.after(state, self.symbol(child)?)
    }

    /// Whether no child is missing in this state.
    #[doc(hidden)]
    pub fn may_end_in(&self, kind: &str, state: u32) -> bool {
        let rules = self.rules(kind);
        rules.is_some_and(|rules| rules.content.may_end(state))
    }

    /// Returns whether nodes of both types may begin with a child of the same type, as the content
    /// of two nodes that are joined. It is `false` if the schema does not have one of them.
    ///
    /// ```
    /// use doclock::schema::{NodeType, Schema};
    ///
    /// let node = |content: &str| NodeType::new().content(content);
    /// let types = Schema::builder().node("quote", node("text+")).node("item", node("text list?"));
    /// let types = types.node("list", node("item+")).node("text", NodeType::new().text(true));
    /// let schema = types.build()?;
    /// assert!(schema.begin_alike("quote", "item"));
    /// assert!(!schema.begin_alike("list", "item"));
    /// # Ok::<(), doclock::schema::SchemaError>(())
    /// ```
    pub fn begin_alike(&self, one: &str, other: &str) -> bool {
        let (Some(one), Some(other)) = (self.rules(one), self.rules(other)) else {
            return false;
        };
        let mut symbols = self.numbers.values().copied();
        symbols.any(|symbol| one.content.begins_with(symbol) && other.content.begins_with(symbol))
    }

    /// Adds the missing defaults to the attributes of new nodes and their marks.
    #[doc(hidden)]
    pub fn complete(&self, nodes: &mut [Arc<Node>]) {
        for node in nodes {
            if let Some(rules) = self.rules(&node.kind)
                && rules.attributes.defaults(&node.attributes).next().is_some()
            {
                rules
                    .attributes
                    .complete(&mut Arc::make_mut(node).attributes);
            }
            if node.marks.iter().any(|mark| self.lacks_defaults(mark)) {
                let mut marks: Vec<Mark> = node.marks.iter().cloned().collect();
                self.complete_marks(&mut marks);
                // Their ranges are still within the text, but some may have become equal.
                if let Ok(marks) = Marks::normal(marks, node.text.len()) {
                    Arc::make_mut(node).marks = marks;
                }
            }
        }
    }

    /// Adds the missing defaults to the attributes of marks.
    #[doc(hidden)]
    pub fn complete_marks(&self, marks: &mut [Mark]) {
        for mark in marks {
            if let Some(rules) = self.marks.get(&mark.kind) {
                rules.attributes.complete(&mut mark.attributes);
            }
        }
    }

    fn lacks_defaults(&self, mark: &Mark) -> bool {
        let rules = self.marks.get(&mark.kind);
        rules.is_some_and(|rules| rules.attributes.defaults(&mark.attributes).next().is_some())
    }
}

/// Checks that the type of a node allows the marks of a child.
fn allow_marks(node: &Node, rules: &TypeRules, child: &Node) -> Result<(), SchemaViolation> {
    let refused = child.marks.iter().find(|mark| {
        step();
        !rules.allows(&mark.kind)
    });
    refused.map_or(Ok(()), |mark| Err(mark_not_allowed(node, mark)))
}

fn mark_not_allowed(node: &Node, mark: &Mark) -> SchemaViolation {
    SchemaViolation::MarkNotAllowed {
        id: node.id.clone(),
        kind: node.kind.clone(),
        mark: mark.kind.clone(),
    }
}

fn unknown_type(id: &crate::id::NodeId, kind: &SmolStr) -> SchemaViolation {
    let (id, kind) = (id.clone(), kind.clone());
    SchemaViolation::UnknownType { id, kind }
}

fn unknown_mark(id: &crate::id::NodeId, mark: &Mark) -> SchemaViolation {
    let (id, mark) = (id.clone(), mark.kind.clone());
    SchemaViolation::UnknownMark { id, mark }
}

fn misplaced(
    node: &Node,
    content: &SmolStr,
    Misfit(index): Misfit,
    view: &impl View,
) -> SchemaViolation {
    let (id, kind, content) = (node.id.clone(), node.kind.clone(), content.clone());
    let child = node.children.get(index).and_then(|child| view.node(child));
    match child {
        Some(child) => SchemaViolation::ChildNotAllowed {
            id,
            kind,
            content,
            index,
            found: child.kind.clone(),
        },
        None => SchemaViolation::ChildrenMissing {
            id,
            kind,
            content,
            len: node.children.len(),
        },
    }
}
