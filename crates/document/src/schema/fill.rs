//! What a schema says to edits that fill, wrap and join nodes.

use smol_str::SmolStr;

use super::{NodeType, Schema, StateId, Symbol, TableRole, TypeRules};
use crate::Attributes;
use crate::steps::step;

/// Whether nodes of a type are parts of a line of text.
pub(super) fn is_inline(name: &SmolStr, node: &NodeType, root: Option<&SmolStr>) -> bool {
    let may_be = node.content.is_none()
        && node.text != Some(false)
        && root != Some(name)
        && node.group.split_whitespace().all(|group| group != "block");
    node.inline.unwrap_or(may_be)
}

/// Finds the types with a line of text, and those without content.
pub(super) fn classify(types: &mut [TypeRules]) {
    for nth in 0..types.len() {
        let content = &types[nth].content;
        let mut first = (0..types.len()).filter(|next| content.begins_with(*next as Symbol));
        let first = first.next();
        let line = first.is_some_and(|first| types[first].inline) && !types[nth].inline;
        let empty = first.is_none() && !types[nth].text;
        (types[nth].line, types[nth].empty) = (line, empty);
    }
}

impl Schema {
    pub(crate) fn number_of(&self, kind: &str) -> Option<Symbol> {
        self.symbol(kind)
    }

    pub(crate) fn kind_of(&self, number: Symbol) -> &SmolStr {
        &self.spec.nodes.0[usize::from(number)].0
    }

    fn of(&self, number: Symbol) -> (&TypeRules, &NodeType) {
        let nth = usize::from(number);
        (&self.types[nth], &self.spec.nodes.0[nth].1)
    }

    /// The source of the content expression of a type.
    pub(crate) fn content_of(&self, number: Symbol) -> &SmolStr {
        self.of(number).0.content.source()
    }

    /// The state before the first child of a node.
    pub(crate) fn content_start(&self, number: Symbol) -> StateId {
        self.of(number).0.content.start()
    }

    /// The state after another child.
    pub(crate) fn content_after(
        &self,
        number: Symbol,
        state: StateId,
        child: Symbol,
    ) -> Option<StateId> {
        self.of(number).0.content.after(state, child)
    }

    /// The state before the child at an index, where the children before it are valid.
    pub(crate) fn state_at(
        &self,
        number: Symbol,
        index: usize,
        symbol: impl Fn(usize) -> Option<Symbol>,
    ) -> Option<StateId> {
        self.of(number).0.content.state_at(index, &symbol)
    }

    /// Whether the content may end in a state.
    pub(crate) fn content_may_end(&self, number: Symbol, state: StateId) -> bool {
        self.of(number).0.content.may_end(state)
    }

    /// The types that may come next, in the order of the schema, with the state after them.
    pub(crate) fn next_types(
        &self,
        number: Symbol,
        state: StateId,
    ) -> impl Iterator<Item = (Symbol, StateId)> {
        let content = &self.of(number).0.content;
        let numbers = 0..self.types.len() as Symbol;
        numbers.filter_map(move |next| {
            step();
            content.after(state, next).map(|after| (next, after))
        })
    }

    pub(crate) fn is_inline(&self, number: Symbol) -> bool {
        self.of(number).0.inline
    }

    /// Whether nodes of a type have text of their own.
    pub(crate) fn has_text(&self, number: Symbol) -> bool {
        self.of(number).0.text
    }

    /// Whether nodes of a type contain a line of text: parts that are inline.
    pub(crate) fn is_text_block(&self, number: Symbol) -> bool {
        self.of(number).0.line
    }

    /// Whether nodes of a type contain a line of text, or are a part of one.
    #[doc(hidden)]
    pub fn has_line(&self, kind: &str) -> bool {
        let number = self.symbol(kind);
        number.is_some_and(|it| self.is_inline(it) || self.is_text_block(it))
    }

    /// Whether nodes of a type are a part of a line of text.
    #[doc(hidden)]
    pub fn is_in_line(&self, kind: &str) -> bool {
        self.symbol(kind).is_some_and(|it| self.is_inline(it))
    }

    /// Whether nodes of a type have no content at all.
    pub(crate) fn is_empty_type(&self, number: Symbol) -> bool {
        self.of(number).0.empty
    }

    pub(crate) fn is_defining(&self, number: Symbol) -> bool {
        self.of(number).1.defining
    }

    pub(crate) fn is_isolating(&self, number: Symbol) -> bool {
        self.of(number).1.isolating
    }

    pub(crate) fn is_code(&self, number: Symbol) -> bool {
        self.of(number).1.code
    }

    /// What nodes of a type are in a table.
    pub(crate) fn table_role(&self, kind: &str) -> Option<TableRole> {
        self.of(self.symbol(kind)?).1.table_role
    }

    /// The type with a role in a table.
    pub(crate) fn table_type(&self, role: TableRole) -> Option<Symbol> {
        let mut types = self.table_types.iter();
        types.find(|(of, _)| *of == role).map(|(_, kind)| *kind)
    }

    /// Whether an edit may create a node of a type by itself.
    pub(crate) fn can_be_made(&self, number: Symbol) -> bool {
        !self.of(number).0.attributes.has_open()
    }

    /// The attributes of a new node.
    pub(crate) fn new_attributes(&self, number: Symbol) -> Attributes {
        let mut attributes = Attributes::default();
        self.of(number).0.attributes.complete(&mut attributes);
        attributes
    }

    /// Attributes with the defaults of a type.
    pub(crate) fn with_defaults(&self, number: Symbol, attributes: &Attributes) -> Attributes {
        let mut attributes = attributes.clone();
        self.of(number).0.attributes.complete(&mut attributes);
        attributes
    }

    /// The attributes of a new node like another: with the required ones of that.
    pub(crate) fn attributes_like(&self, number: Symbol, like: &Attributes) -> Attributes {
        let mut attributes = self.new_attributes(number);
        for name in self.of(number).0.attributes.required() {
            attributes.set(name.clone(), like.get(name).cloned());
        }
        attributes
    }

    /// Whether two nodes are of one kind for a join: of one type, with the same required
    /// attributes.
    pub(crate) fn are_one_kind(
        &self,
        one: (Symbol, &Attributes),
        other: (Symbol, &Attributes),
    ) -> bool {
        let mut required = self.of(one.0).0.attributes.required();
        one.0 == other.0 && required.all(|name| one.1.get(name) == other.1.get(name))
    }

    /// Whether text that is typed at the end of a mark has it, if the schema says so.
    #[doc(hidden)]
    pub fn is_inclusive(&self, mark: &str) -> Option<bool> {
        self.marks.get(mark).and_then(|rules| rules.inclusive)
    }
}
