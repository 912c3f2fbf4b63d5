//! The schema of a document whose types are those of an editor, in the names of the document.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use doclock::document::{Attributes, Value};
use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, TableRole, ValueType};
use doclock::transaction::{InputRule, InputTarget};
use serde::Deserialize;
use smol_str::SmolStr;

use super::error::ProseMirrorNamesError;
use super::names::{MarkNames, Package, ProseMirrorContent, ProseMirrorNames, TypeMapping};
use crate::rules::{LANGUAGE, LEVEL, NUMBER, RuleTargets};

/// The type of the top of every document of ProseMirror.
const TOP: &str = "doc";

/// The rules of the types of a package, in the names of ProseMirror. The content of a type with
/// text is always text, so it has none here.
#[derive(Default, Deserialize)]
struct PackageRules {
    nodes: BTreeMap<SmolStr, NodeRules>,
    marks: BTreeMap<SmolStr, MarkRules>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NodeRules {
    group: SmolStr,
    content: SmolStr,
    defining: bool,
    isolating: bool,
    #[serde(rename = "tableRole")]
    table_role: Option<TableRole>,
    attributes: BTreeMap<SmolStr, AttributeSpec>,
    /// Whether it may have any other attribute.
    #[serde(skip)]
    others: bool,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MarkRules {
    /// `None` is `true`, as in ProseMirror.
    inclusive: Option<bool>,
    attributes: BTreeMap<SmolStr, AttributeSpec>,
    /// Whether it may have any other attribute.
    #[serde(skip)]
    others: bool,
}

impl PackageRules {
    fn of(package: Package) -> Self {
        let json = match package {
            Package::None => return Self::default(),
            Package::Basic => include_str!("schema/basic.json"),
            Package::Tiptap => include_str!("schema/tiptap.json"),
        };
        serde_json::from_str(json).unwrap_or_default()
    }

    /// The rules of a node type; one that the package does not have is a block of any blocks.
    fn node(&self, prosemirror: &str) -> NodeRules {
        let known = self.nodes.get(prosemirror).cloned();
        known.unwrap_or_else(|| NodeRules {
            group: if prosemirror == TOP { "" } else { "block" }.into(),
            content: "block+".into(),
            others: true,
            ..NodeRules::default()
        })
    }

    fn mark(&self, prosemirror: &str) -> MarkRules {
        let known = self.marks.get(prosemirror).cloned();
        known.unwrap_or_else(|| MarkRules {
            others: true,
            ..MarkRules::default()
        })
    }
}

/// The rules of each package, read once.
fn rules_of(package: Package) -> &'static PackageRules {
    static ALL: [OnceLock<PackageRules>; 3] = [const { OnceLock::new() }; 3];
    ALL[package as usize].get_or_init(|| PackageRules::of(package))
}

impl ProseMirrorNames {
    /// Whether a type has an attribute of the document by its name or by the rules of its package.
    pub(super) fn has_attribute(&self, entry: &TypeMapping, document: &str) -> bool {
        let known = rules_of(self.package).nodes.get(&entry.prosemirror);
        let mut of_package = known.into_iter().flat_map(|rules| rules.attributes.keys());
        entry.attributes.iter().any(|(_, name)| name == document)
            || of_package.any(|name| entry.read_name(name) == Some(document))
    }

    /// Returns the schema of documents with these types, in the names of the document. Its root is
    /// the type `doc`.
    ///
    /// The types of [`basic`](Self::basic) and [`tiptap`](Self::tiptap) have the rules of their
    /// packages, also under another name in the document. So a document that follows the schema is
    /// valid in the editor, whatever operations made it, with one exception. Where several types of
    /// ProseMirror are one type of the document, it allows what any of them allows. A node can have
    /// a content, marks or attributes there that only another of these types has in the editor:
    /// ProseMirror loses such attributes, as the `start` of a bullet list, without a report. Items
    /// of lists of tasks can contain further blocks, as with Tiptap's option `nested`.
    ///
    /// A type that was defined with [`node`](Self::node) is a block, and contains any blocks if it
    /// has [`ProseMirrorContent::Blocks`]. A mark that was defined with [`mark`](Self::mark) is
    /// inclusive. Both have any attributes. For other rules, edit the JSON of the schema.
    ///
    /// # Errors
    ///
    /// - [`ProseMirrorNamesError::Incomplete`]: a later definition has replaced one of the types
    ///   that one type of the document is. After `tiptap`, for example, it is an error to rename
    ///   `listItem` alone, because a task in a list of tasks remains a `list-item`.
    /// - [`ProseMirrorNamesError::Definition`]: the parent of a type is not defined.
    /// - [`ProseMirrorNamesError::Schema`]: a name of the document cannot be in a schema. It is
    ///   empty, is `block`, or has a character of a content expression. Or the content of a package
    ///   has a type that is no longer defined. It is named as in ProseMirror then.
    ///
    /// ```
    /// use doclock::{CommitError, DataStore, StoreOptions, document::NodeSpec};
    /// use doclock_formats::prosemirror::ProseMirrorNames;
    ///
    /// let schema = ProseMirrorNames::tiptap().schema()?;
    /// let store = DataStore::with_options(StoreOptions::new().schema(schema));
    /// let mut transaction = store.begin("ann")?;
    /// transaction.create(NodeSpec::new("table").with_id("t"))?;
    /// let CommitError::Schema(violation) = transaction.commit().unwrap_err() else { unreachable!() };
    /// assert_eq!(
    ///     violation.to_string(),
    ///     "node t of type table has 0 children; its content `table-row+` requires more",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schema(&self) -> Result<Schema, ProseMirrorNamesError> {
        let rules = rules_of(self.package);
        let mut schema = Schema::builder();
        let mut known: Vec<&SmolStr> = Vec::new();
        for (entry, content) in &self.nodes {
            let parent = entry.parent.as_ref();
            if parent.is_some_and(|parent| self.node_named(parent).is_none()) {
                let reason = "its parent is not defined";
                return Err(ProseMirrorNamesError::definition(entry, reason));
            }
            if matches!(content, ProseMirrorContent::Inline) {
                let own = rules.node(&entry.prosemirror);
                let mark = MarkType::new().leaf(true).unknown_attributes(own.others);
                let mark = with_attributes(mark, entry, own.attributes);
                schema = schema.mark(entry.document.clone(), mark);
            } else if *content != ProseMirrorContent::Break && !known.contains(&&entry.document) {
                known.push(&entry.document);
                self.check_complete(&entry.document)?;
                let of_type = self.node_type(&entry.document, rules);
                schema = schema.node(entry.document.clone(), of_type);
            }
        }
        schema = schema.node(self.of_text().clone(), NodeType::new());
        for entry in &self.marks {
            schema = schema.mark(entry.document.clone(), self.mark_type(entry, rules));
        }
        if let Some((top, _)) = self.node_named(TOP) {
            schema = schema.root(top.document.clone());
        }
        let schema = schema.build();
        schema.map_err(|cause| ProseMirrorNamesError::Schema { cause })
    }

    /// Returns rules for [`apply_input_rules`](doclock::dsl::apply_input_rules) that make nodes and
    /// marks with these names of typed text, as Tiptap's StarterKit does: headings, quotes, lists,
    /// code, horizontal rules, bold, italic and struck text.
    ///
    /// There is a rule for each type and mark that has a name in `basic` or in `tiptap`. They match
    /// the same text as the [rules for Markdown][rules], and no rule applies in code.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, StoreOptions, View, document::Selection, dsl::*};
    /// use doclock_formats::prosemirror::ProseMirrorNames;
    ///
    /// let names = ProseMirrorNames::tiptap();
    /// let store = DataStore::with_options(StoreOptions::new().schema(names.schema()?));
    /// let editor = Editor::new(store, "ann");
    /// let line = element("paragraph", [text_node("inline-text", "a **b*").with_id("t")]);
    /// transaction(&editor, [create(element("document", [line]))]).commit()?;
    /// editor.select(Selection::caret("t", 6))?;
    ///
    /// transaction(&editor, [insert_text(6, "*").on("t")]).commit()?;
    /// transaction(&editor, [apply_input_rules(names.input_rules())]).commit()?;
    /// let page = editor.store().snapshot();
    /// assert_eq!(page.node("t").unwrap().text(), &"a b");
    /// assert_eq!(page.node("t").unwrap().marks().iter().next().unwrap().kind, "bold");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [rules]: https://docs.rs/doclock-formats/latest/doclock_formats/markdown/struct.MarkdownNames.html#method.input_rules
    #[must_use]
    pub fn input_rules(&self) -> Vec<InputRule> {
        let node = |names: &[&str]| {
            let entry = names.iter().find_map(|name| self.node_named(name))?.0;
            let fixed: Attributes = entry.fixed.iter().cloned().collect();
            let target = InputTarget::new(entry.document.clone()).with_attributes(fixed);
            Some((entry, target))
        };
        let block = |names| node(names).map(|(_, target)| target);
        let with = |names, attributes: &[&str], capture| {
            let (entry, target) = node(names)?;
            let mut known = attributes.iter().filter_map(|name| entry.read_name(name));
            Some(match known.find(|name| self.has_attribute(entry, name)) {
                Some(name) => target.captured(name, capture),
                None => target,
            })
        };
        let mark = |names: &[&str]| {
            let entry = names.iter().find_map(|name| self.mark_named(name))?;
            Some(InputTarget::new(entry.document.clone()))
        };
        RuleTargets {
            quote: block(&["blockquote"]),
            bullet_list: block(&["bulletList", "bullet_list"]),
            ordered_list: with(
                &["orderedList", "ordered_list"],
                &["start", "order"],
                NUMBER,
            ),
            heading: with(&["heading"], &["level"], LEVEL),
            code_block: with(&["codeBlock", "code_block"], &["language"], LANGUAGE),
            break_line: block(&["horizontalRule", "horizontal_rule"]),
            strong: mark(&["bold", "strong"]),
            emphasis: mark(&["italic", "em"]),
            strike: mark(&["strike"]),
            code: mark(&["code"]),
        }
        .rules()
    }

    /// The rules of a type of the document: those of all types of ProseMirror that it is.
    fn node_type(&self, document: &SmolStr, rules: &PackageRules) -> NodeType {
        let mut attributes = BTreeMap::new();
        let mut free: Vec<&TypeMapping> = Vec::new();
        let mut groups: Vec<SmolStr> = Vec::new();
        let mut contents: Vec<String> = Vec::new();
        let mut marks = Some(Vec::new());
        let (mut others, mut defining, mut isolating, mut code) = (false, false, false, false);
        let mut table_role = None;
        let mut node = NodeType::new();
        for (entry, content) in self.variants(document) {
            let own = rules.node(&entry.prosemirror);
            let children = self.children(content, &own.content);
            if !contents.contains(&children) {
                contents.push(children);
            }
            let allowed = self.allowed_marks(entry, content);
            marks = marks
                .zip(allowed)
                .map(|(marks, more)| [marks, more].concat());
            others |= own.others;
            free.extend(own.others.then_some(entry));
            defining |= own.defining;
            isolating |= own.isolating;
            // Cells of one type that an attribute tells apart are cells.
            table_role = table_role.or(own.table_role);
            code |= content == ProseMirrorContent::Code;
            if !own.group.is_empty() && !groups.contains(&own.group) {
                groups.push(own.group);
            }
            for (name, spec) in named_attributes(entry, own.attributes) {
                attributes.entry(name).or_insert(spec);
            }
        }
        for (name, spec) in fixed_attributes(self.variants(document).map(|(entry, _)| entry)) {
            // A type without this value can have others.
            let is_free = free.iter().any(|entry| !entry.fixes(&name));
            let spec = if is_free {
                AttributeSpec::default()
            } else {
                spec
            };
            attributes.entry(name).or_insert(spec);
        }
        node = node.group(groups.join(" "));
        node = node.content(either(contents)).unknown_attributes(others);
        node = node.defining(defining).isolating(isolating).code(code);
        if let Some(role) = table_role {
            node = node.table_role(role);
        }
        if let Some(marks) = marks {
            node = node.marks(marks.join(" "));
        }
        let attributes = attributes.into_iter();
        attributes.fold(node, |node, (name, spec)| node.attribute(name, spec))
    }

    /// The content expression of a type, in the names of the document.
    fn children(&self, content: ProseMirrorContent, expression: &str) -> String {
        match content {
            ProseMirrorContent::Text | ProseMirrorContent::Code => format!("{}*", self.of_text()),
            ProseMirrorContent::Blocks => self.in_document(expression),
            _ => String::new(),
        }
    }

    /// A content expression of ProseMirror in the names of the document.
    fn in_document(&self, expression: &str) -> String {
        let is_name = |char: char| char.is_alphanumeric() || char == '_';
        let mut translated = String::new();
        let mut rest = expression;
        while !rest.is_empty() {
            let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let known = self
                .node_named(name)
                .map(|(entry, _)| entry.document.as_str());
            translated.push_str(known.unwrap_or(name));
            let end = after.find(is_name).unwrap_or(after.len());
            let (between, after) = after.split_at(end);
            translated.push_str(between);
            rest = after;
        }
        translated
    }

    /// The marks of the document that text in a type may have, with inline nodes; `None` for all.
    fn allowed_marks(
        &self,
        entry: &TypeMapping,
        content: ProseMirrorContent,
    ) -> Option<Vec<SmolStr>> {
        let names = self.mark_names(&entry.marks)?;
        let inline = self.nodes.iter().filter(|(_, of)| {
            *of == ProseMirrorContent::Inline && content == ProseMirrorContent::Text
        });
        let inline = inline.map(|(entry, _)| entry.document.clone());
        Some(names.into_iter().chain(inline).collect())
    }

    /// The names of marks in the document; `None` for all.
    fn mark_names(&self, names: &MarkNames) -> Option<Vec<SmolStr>> {
        let MarkNames::These(names) = names else {
            return None;
        };
        let known = names.iter().filter_map(|name| self.mark_named(name));
        Some(known.map(|entry| entry.document.clone()).collect())
    }

    fn mark_type(&self, entry: &TypeMapping, rules: &PackageRules) -> MarkType {
        let own = rules.mark(&entry.prosemirror);
        let mut mark = MarkType::new().unknown_attributes(own.others);
        if own.inclusive.unwrap_or(true) {
            mark = mark.inclusive(true);
        }
        mark = match self.mark_names(&entry.marks) {
            None => mark.excludes("_"),
            Some(names) if *names == [entry.document.clone()] => mark,
            Some(names) => mark.excludes(names.join(" ")),
        };
        with_attributes(mark, entry, own.attributes)
    }
}

fn with_attributes(
    mark: MarkType,
    entry: &TypeMapping,
    attributes: BTreeMap<SmolStr, AttributeSpec>,
) -> MarkType {
    let attributes = named_attributes(entry, attributes);
    attributes.fold(mark, |mark, (name, spec)| mark.attribute(name, spec))
}

/// Attributes of ProseMirror, in the names of the document. One with a name of the program has any
/// values if the package has none of it.
fn named_attributes(
    entry: &TypeMapping,
    mut attributes: BTreeMap<SmolStr, AttributeSpec>,
) -> impl Iterator<Item = (SmolStr, AttributeSpec)> {
    for (prosemirror, _) in &entry.attributes {
        attributes.entry(prosemirror.clone()).or_default();
    }
    let attributes = attributes.into_iter();
    attributes.filter_map(|(name, spec)| Some((entry.read_name(&name)?.into(), spec)))
}

/// The attributes that determine which of these types a node of the document is. A boolean that is
/// in two of them has to be present.
fn fixed_attributes<'n>(
    variants: impl Iterator<Item = &'n TypeMapping>,
) -> BTreeMap<SmolStr, AttributeSpec> {
    let mut values: BTreeMap<SmolStr, Vec<Value>> = BTreeMap::new();
    for (name, value) in variants.flat_map(|entry| &entry.fixed) {
        let known = values.entry(name.clone()).or_default();
        if !known.contains(value) {
            known.push(value.clone());
        }
    }
    let specs = values.into_iter().map(|(name, values)| {
        let spec = match &*values {
            [Value::Bool(_), Value::Bool(_)] => AttributeSpec::new(ValueType::Boolean)
                .required()
                .with_default(false),
            [Value::Bool(_)] => AttributeSpec::new(ValueType::Boolean),
            all if all.iter().all(Value::is_string) => {
                AttributeSpec::new(ValueType::String).with_values(values)
            }
            _ => AttributeSpec::default().with_values(values),
        };
        (name, spec)
    });
    specs.collect()
}

/// A content expression for one of several.
fn either(mut contents: Vec<String>) -> String {
    let all = contents.len();
    contents.retain(|content| !content.is_empty());
    let is_optional = contents.len() < all;
    let one = match &*contents {
        [] => return String::new(),
        [only] if !is_optional => return only.clone(),
        [only] => only.clone(),
        _ => format!("({})", contents.join(") | (")),
    };
    match is_optional {
        true => format!("({one})?"),
        false => one,
    }
}
