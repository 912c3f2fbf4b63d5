//! The text of a block, with its white space and its marks.

use doclock::document::{Attributes, Mark, Marks, NodeSpec};
use serde_json::Value;

use super::HtmlReader;
use crate::html::style::{Property, Style, Value as StyleValue};
use crate::html::{DroppedPart, MarkdownAttribute, MarkdownMark, MarkdownNode, OBJECT};
use crate::steps::steps;

/// The style of a text, from the elements around it and their style attributes.
#[derive(Clone, Copy, Default)]
pub(super) struct TextStyle {
    bold: bool,
    italic: bool,
    struck: bool,
    /// Whether white space is preserved.
    preserved: bool,
}

impl TextStyle {
    fn marks(self) -> [(MarkdownMark, bool); 3] {
        [
            (MarkdownMark::Strong, self.bold),
            (MarkdownMark::Emphasis, self.italic),
            (MarkdownMark::Strikethrough, self.struck),
        ]
    }

    /// Of an element with this name and style.
    pub(super) fn within(self, name: &str, style: &Style, in_code: bool) -> Self {
        let value = |property, around, of_name| match style.get(property) {
            Some(StyleValue::On) => true,
            Some(StyleValue::Inherited) => around,
            Some(_) => false,
            None => around || of_name,
        };
        let preserved = value(Property::Space, self.preserved, name == "pre");
        if in_code {
            return Self { preserved, ..self };
        }
        // These are bold without a mark.
        let is_head = matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "th");
        let is_struck = matches!(name, "del" | "s" | "strike");
        Self {
            bold: match is_head {
                true => self.bold,
                false => value(Property::Weight, self.bold, matches!(name, "b" | "strong")),
            },
            italic: value(Property::Slant, self.italic, matches!(name, "em" | "i")),
            // A line goes through all descendants.
            struck: self.struck || value(Property::Strike, false, is_struck),
            preserved,
        }
    }
}

/// The last character of a text.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TrailingCharacter {
    /// One that stays.
    #[default]
    Firm,
    /// A space, which is dropped at the end of a line.
    Space,
    /// A newline, which begins no line at the end of the text.
    Break,
}

pub(super) struct OpenMark {
    pub(super) kind: MarkdownMark,
    pub(super) attributes: Attributes,
    pub(super) start: usize,
    /// Whether it covers text already.
    pub(super) used: bool,
}

impl HtmlReader<'_> {
    /// Takes the mark of an image that directly follows an equal one. Otherwise the two would be
    /// one mark, and one image would be lost without a report.
    pub(super) fn part_images(&mut self) {
        let marks = &mut self.block().marks;
        let Some((image, before)) = marks.split_last() else {
            return;
        };
        let start = image.range.as_ref().map(|range| range.start);
        let end = |mark: &Mark| mark.range.as_ref().map(|range| range.end);
        let is_equal = |mark: &Mark| mark.kind == image.kind && mark.attributes == image.attributes;
        // Marks are in the order of their ends, and none ends within the image.
        let mut adjacent = before.iter().rev().take_while(|mark| end(mark) == start);
        if adjacent.any(is_equal) {
            marks.pop();
            self.drop_mark(MarkdownMark::Image);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.text_style.preserved || self.block().kind == MarkdownNode::CodeBlock {
            return self.say(text);
        }
        let is_space = |char: char| matches!(char, ' ' | '\t' | '\n' | '\u{c}' | '\r');
        for (nth, word) in text.split(is_space).enumerate() {
            if nth > 0 {
                self.space();
            }
            self.say(word);
        }
    }

    /// A space, which is dropped at both ends of a line and after another one.
    fn space(&mut self) {
        let block = self.block();
        let is_within = block.tail == TrailingCharacter::Firm && !block.text.ends_with('\n');
        if block.len > 0 && is_within && !block.broken {
            block.text.push(' ');
            block.len += 1;
            block.tail = TrailingCharacter::Space;
        }
    }

    /// Adds characters as they are.
    pub(super) fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        steps(text.len());
        self.place_for_text();
        self.end_broken_line();
        self.push(text);
    }

    fn end_broken_line(&mut self) {
        if std::mem::take(&mut self.block().broken) && self.block().len > 0 {
            self.end_line();
            if !self.block().text.ends_with('\n') {
                let before = self.block().len;
                self.push("\n");
                // A mark begins with the text behind the break.
                for mark in self.marks.iter_mut().filter(|mark| mark.start == before) {
                    mark.start += 1;
                }
            }
        }
    }

    fn push(&mut self, text: &str) {
        let block = self.block();
        block.text.push_str(text);
        block.len += text.chars().count();
        block.tail = TrailingCharacter::Firm;
        self.reach_text();
    }

    pub(super) fn line_break(&mut self) {
        self.place_for_text();
        self.end_broken_line();
        self.end_line();
        self.push("\n");
        self.block().tail = TrailingCharacter::Break;
    }

    /// Drops the space at the end of a line.
    fn end_line(&mut self) {
        if self.block().tail == TrailingCharacter::Space {
            self.drop_tail();
        }
    }

    fn drop_tail(&mut self) {
        let block = self.block();
        if std::mem::take(&mut block.tail) != TrailingCharacter::Firm {
            block.text.pop();
            block.len -= 1;
            let len = block.len;
            // They are in the order of their ends.
            for range in block
                .marks
                .iter_mut()
                .rev()
                .map_while(|mark| mark.range.as_mut())
            {
                if range.end <= len {
                    break;
                }
                *range = range.start.min(len)..len;
            }
            for mark in &mut self.marks {
                mark.start = mark.start.min(len);
            }
        }
    }

    /// Makes a child of the pending text, if there is any. Open marks go on in the next text.
    pub(super) fn end_text(&mut self) {
        self.drop_tail();
        let names = &self.options.names;
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        let len = std::mem::take(&mut block.len);
        let text = std::mem::take(&mut block.text);
        let mut marks = std::mem::take(&mut block.marks);
        block.broken = false;
        for open in &mut self.marks {
            let start = std::mem::take(&mut open.start);
            if start < len && block.kind == MarkdownNode::CodeBlock {
                let (line, mark) = (self.line, names.of_mark(open.kind).clone());
                self.report.add(DroppedPart::Mark { mark }, || line);
            } else if start < len {
                open.used = true;
                let mark = Mark::new(names.of_mark(open.kind).clone(), start..len);
                marks.push(mark.with_attributes(open.attributes.clone()));
            }
        }
        if len > 0 {
            let spec = NodeSpec::new(names.of_node(MarkdownNode::Text).clone());
            let marks = Marks::normal(marks, len).unwrap_or_default();
            let spec = spec.with_text(text).with_marks(marks.iter().cloned());
            block.children.push(spec);
        }
    }

    pub(super) fn open_mark<const N: usize>(
        &mut self,
        kind: MarkdownMark,
        attributes: [(MarkdownAttribute, Option<&str>); N],
    ) -> Option<MarkdownMark> {
        let names = &self.options.names;
        let given = attributes.into_iter().filter_map(|(attribute, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some((names.of_attribute(attribute).clone(), Value::from(value)))
        });
        let attributes: Attributes = given.collect();
        let start = self.block().len;
        self.marks.push(OpenMark {
            kind,
            attributes,
            start,
            used: false,
        });
        Some(kind)
    }

    /// Opens and closes the marks in which the text style changes.
    pub(super) fn set_text_style(&mut self, text_style: TextStyle) {
        let before = std::mem::replace(&mut self.text_style, text_style);
        for ((kind, was), (_, is)) in before.marks().into_iter().zip(text_style.marks()) {
            match (was, is) {
                (false, true) => drop(self.open_mark(kind, [])),
                (true, false) => self.close_mark(kind),
                _ => {}
            }
        }
    }

    /// Closes the innermost mark of a kind.
    pub(super) fn close_mark(&mut self, kind: MarkdownMark) {
        let Some(nth) = self.marks.iter().rposition(|mark| mark.kind == kind) else {
            return;
        };
        let (start, used) = (self.marks[nth].start, self.marks[nth].used);
        let is_target = matches!(kind, MarkdownMark::Link | MarkdownMark::Image);
        if is_target && !used && start >= self.block().len {
            // The mark needs a character.
            self.place_for_text();
            self.say(OBJECT.encode_utf8(&mut [0; 4]));
        }
        let open = self.marks.remove(nth);
        let name = self.options.names.of_mark(kind).clone();
        let block = self.block();
        if open.start < block.len {
            let mark = Mark::new(name, open.start..block.len);
            block.marks.push(mark.with_attributes(open.attributes));
        }
    }
}
