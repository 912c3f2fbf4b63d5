//! The styles of elements.

use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState,
    QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser, Token, parse_important,
};

use crate::steps::steps;

/// A property that a document can express.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Weight,
    Slant,
    Strike,
    Space,
    Display,
    Visibility,
    Align,
}

/// A value as far as it matters to a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Bold, italic, struck through, preserved, a block, visible.
    On,
    Off,
    /// That of the parent.
    Inherited,
    /// An element that is not shown.
    Hidden,
    Align(&'static str),
}

struct Declaration {
    property: Property,
    value: Value,
    important: bool,
}

/// The declarations of a style that a document can express: one of each property at most.
#[derive(Default)]
pub(super) struct Style {
    declarations: Vec<Declaration>,
    /// Whether the style has others.
    others: bool,
}

impl Style {
    pub(super) fn parsed(css: &str) -> Self {
        let mut style = Self::default();
        // The work of the parser is not counted.
        steps(css.len());
        let mut input = Parser::new(css);
        for read in RuleBodyParser::new(&mut input, &mut DeclarationReader) {
            match read {
                Ok(declaration) => style.declare(declaration),
                Err(_) => style.others = true,
            }
        }
        style
    }

    /// The last declaration of a property counts, among important ones if there are any.
    fn declare(&mut self, next: Declaration) {
        let mut declarations = self.declarations.iter_mut();
        match declarations.find(|one| one.property == next.property) {
            Some(one) if one.important && !next.important => {}
            Some(one) => *one = next,
            None => self.declarations.push(next),
        }
    }

    pub(super) fn get(&self, property: Property) -> Option<Value> {
        let mut declarations = self.declarations.iter();
        let found = declarations.find(|one| one.property == property);
        found.map(|one| one.value)
    }

    /// Drops a declaration from those that are not expressed.
    pub(super) fn take(&mut self, property: Property) {
        self.declarations.retain(|one| one.property != property);
    }

    /// Whether it has a declaration that a document expresses.
    pub(super) fn is_known(&self) -> bool {
        self.declarations
            .iter()
            .any(|one| one.property != Property::Align)
    }

    /// Whether a document expresses all of it, here within code or not.
    pub(super) fn is_expressed(&self, in_code: bool) -> bool {
        use Property::{Align, Slant, Strike, Weight};
        let is_lost = |one: &Declaration| match one.property {
            Align => true,
            Weight | Slant | Strike => in_code,
            _ => false,
        };
        !self.others && !self.declarations.iter().any(is_lost)
    }
}

/// Reads declarations. A style has no rules.
struct DeclarationReader;

impl<'i> DeclarationParser<'i> for DeclarationReader {
    type Declaration = Declaration;
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _: &ParserState,
    ) -> Result<Declaration, ParseError<()>> {
        let unknown = || ParseError::unexpected_token();
        let property = property(&name).ok_or_else(unknown)?;
        let mut value = None;
        let mut important = false;
        loop {
            important |= input.try_parse(parse_important).is_ok();
            let Ok(token) = input.next() else {
                break;
            };
            let word = match token {
                Token::Ident(word) => value_of(property, &word.to_ascii_lowercase()),
                Token::Number { value, .. } if property == Property::Weight => Some(weight(*value)),
                _ => None,
            };
            // Of several words, such as those of a decoration, one counts.
            value = match value {
                Some(Value::On) => value,
                _ => word.or(value),
            };
        }
        let value = value.ok_or_else(unknown)?;
        Ok(Declaration {
            property,
            value,
            important,
        })
    }
}

impl AtRuleParser<'_> for DeclarationReader {
    type Prelude = ();
    type AtRule = Declaration;
    type Error = ();
}

impl QualifiedRuleParser<'_> for DeclarationReader {
    type Prelude = ();
    type QualifiedRule = Declaration;
    type Error = ();
}

impl RuleBodyItemParser<'_, Declaration, ()> for DeclarationReader {
    fn parse_declarations(&self) -> bool {
        true
    }

    fn parse_qualified(&self) -> bool {
        false
    }
}

fn property(name: &str) -> Option<Property> {
    Some(match name.to_ascii_lowercase().as_str() {
        "font-weight" => Property::Weight,
        "font-style" => Property::Slant,
        "text-decoration" | "text-decoration-line" => Property::Strike,
        "white-space" | "white-space-collapse" => Property::Space,
        "display" => Property::Display,
        "visibility" => Property::Visibility,
        "text-align" => Property::Align,
        _ => return None,
    })
}

/// The value of a word. `None` for a word that is not valid there or says nothing.
fn value_of(property: Property, word: &str) -> Option<Value> {
    use Property::{Align, Display, Slant, Space, Strike, Visibility, Weight};
    Some(match (property, word) {
        (_, "inherit") => Value::Inherited,
        (Display | Visibility | Align, "unset") => return None,
        (_, "unset") => Value::Inherited,
        (Weight, "bold" | "bolder") => Value::On,
        (Weight, "normal" | "lighter" | "initial") => Value::Off,
        (Slant, "italic" | "oblique") => Value::On,
        (Slant, "normal" | "initial") => Value::Off,
        (Strike, "line-through") => Value::On,
        (Strike, "none" | "underline" | "overline" | "initial") => Value::Off,
        (Space, "pre" | "pre-wrap" | "break-spaces" | "preserve") => Value::On,
        (Space, "normal" | "nowrap" | "pre-line" | "collapse" | "preserve-breaks" | "initial") => {
            Value::Off
        }
        (Display, "none") => Value::Hidden,
        (Display, "block" | "flex" | "grid" | "table" | "list-item" | "flow-root") => Value::On,
        (Display, word) if word.starts_with("inline") => Value::Off,
        (Visibility, "hidden" | "collapse") => Value::Hidden,
        (Visibility, "visible") => Value::On,
        (Align, "left") => Value::Align("left"),
        (Align, "center") => Value::Align("center"),
        (Align, "right") => Value::Align("right"),
        (Align, _) => Value::Align("none"),
        _ => return None,
    })
}

/// A weight of 600 is the lightest that browsers take for bold.
fn weight(number: f32) -> Value {
    match number >= 600.0 {
        true => Value::On,
        false => Value::Off,
    }
}
