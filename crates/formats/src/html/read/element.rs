//! An element of a page, with its style and its attributes.

use html5ever::Attribute;

use crate::html::style::{Property, Style, Value as StyleValue};

/// An element, its style, and its attributes that are not read yet.
pub(super) struct Element<'t> {
    pub(super) name: &'t str,
    pub(super) attributes: Vec<&'t Attribute>,
    pub(super) style: Style,
}

impl<'t> Element<'t> {
    pub(super) fn new(name: &'t str, attributes: &'t [Attribute]) -> Self {
        let mut element = Self {
            name,
            attributes: attributes.iter().collect(),
            style: Style::default(),
        };
        element.style = element.get("style").map(Style::parsed).unwrap_or_default();
        element
    }

    pub(super) fn get(&self, name: &str) -> Option<&'t str> {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|attribute| attribute.name.local.as_ref() == name);
        found.map(|attribute| &*attribute.value)
    }

    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        self.get(name)
            .is_some_and(|found| found.eq_ignore_ascii_case(value))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'t str> {
        let value = self.get(name);
        self.attributes
            .retain(|attribute| attribute.name.local.as_ref() != name);
        value
    }

    /// Whether a browser shows nothing of its content.
    pub(super) fn is_hidden(&self) -> bool {
        let by_name = match self.name {
            "script" | "style" | "template" | "title" | "iframe" | "noembed" | "noframes" => {
                return true;
            }
            "annotation" | "annotation-xml" | "datalist" => true,
            "dialog" => self.get("open").is_none(),
            _ => self.get("hidden").is_some(),
        };
        let by_style = match self.style.get(Property::Display) {
            Some(display) => display == StyleValue::Hidden,
            None => by_name,
        };
        by_style || self.style.get(Property::Visibility) == Some(StyleValue::Hidden)
    }

    /// Whether it begins a line, if it is no block of a document.
    pub(super) fn is_block(&self) -> bool {
        match self.style.get(Property::Display) {
            Some(StyleValue::On) => true,
            Some(StyleValue::Off) => false,
            _ => is_block(self.name),
        }
    }

    pub(super) fn rest(&self) -> Vec<String> {
        let attributes = self.attributes.iter();
        attributes
            .map(|attribute| attribute.name.local.to_string())
            .collect()
    }
}

/// Whether an unknown element begins a line.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "legend"
            | "main"
            | "menu"
            | "nav"
            | "option"
            | "search"
            | "section"
            | "summary"
    )
}
