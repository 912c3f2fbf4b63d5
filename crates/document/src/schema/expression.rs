//! Content expressions: parses text to a tree.

use smol_str::SmolStr;

use super::error::ExpressionError;

/// A content expression: the allowed children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// One child of a type or a group, by the index of its name in the expression.
    Name(usize),
    /// A sequence, which may be empty.
    Sequence(Vec<Expression>),
    /// A choice between alternatives.
    Choice(Vec<Expression>),
    /// A repetition with minimum and maximum; `None` for no maximum.
    Repeat(Box<Expression>, usize, Option<usize>),
}

/// A tree with its names, each once, and the position of the first occurrence of each.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) tree: Expression,
    pub(super) names: Vec<(SmolStr, usize)>,
}

/// The most characters of an expression.
pub(super) const LONGEST: usize = 4096;
/// The most levels of parentheses. The tree is at most three times as deep, so recursion is safe.
pub(super) const DEEPEST: usize = 64;
/// The largest count in braces.
pub(super) const LARGEST: usize = 1000;

/// Whether a character is part of the syntax, so no name contains it.
pub(super) fn is_reserved(c: char) -> bool {
    c.is_whitespace() || "()|?*+{},".contains(c)
}

/// Reads an expression.
///
/// ```text
/// choice   := sequence ('|' sequence)*
/// sequence := item item*
/// item     := (name | '(' choice ')') ('?' | '*' | '+' | '{' n '}' | '{' n ',' '}' | '{' n ',' m '}')?
/// ```
pub(super) fn parse(text: &str) -> Result<Parsed, ExpressionError> {
    // Counted only up to the limit.
    if text.chars().nth(LONGEST).is_some() {
        return Err(ExpressionError::TooLong { longest: LONGEST });
    }
    let mut parser = Parser {
        chars: text.chars().collect(),
        at: 0,
        open: 0,
        names: Vec::new(),
    };
    let tree = match parser.peek() {
        None => Expression::Sequence(Vec::new()),
        Some(_) => parser.choice()?,
    };
    match parser.peek() {
        None => Ok(Parsed {
            tree,
            names: parser.names,
        }),
        Some(_) => Err(parser.unexpected("a name, `(`, `|` or the end")),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    /// The number of open parentheses.
    open: usize,
    names: Vec<(SmolStr, usize)>,
}

impl Parser {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&mut self, expected: &'static str) -> ExpressionError {
        let found = self.peek();
        ExpressionError::Unexpected {
            position: self.at,
            found,
            expected,
        }
    }

    fn choice(&mut self) -> Result<Expression, ExpressionError> {
        let mut options = vec![self.sequence()?];
        while self.eat('|') {
            options.push(self.sequence()?);
        }
        Ok(single(options, Expression::Choice))
    }

    fn sequence(&mut self) -> Result<Expression, ExpressionError> {
        let mut items = vec![self.item()?];
        while self.peek().is_some_and(|c| c == '(' || !is_reserved(c)) {
            items.push(self.item()?);
        }
        Ok(single(items, Expression::Sequence))
    }

    fn item(&mut self) -> Result<Expression, ExpressionError> {
        let atom = match self.peek() {
            Some('(') => self.parenthesis()?,
            Some(c) if !is_reserved(c) => self.name(),
            _ => return Err(self.unexpected("a name or `(`")),
        };
        let (min, max) = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                let (min, max) = self.counts()?;
                return Ok(Expression::Repeat(Box::new(atom), min, max));
            }
            _ => return Ok(atom),
        };
        self.at += 1;
        Ok(Expression::Repeat(Box::new(atom), min, max))
    }

    fn parenthesis(&mut self) -> Result<Expression, ExpressionError> {
        if self.open == DEEPEST {
            return Err(ExpressionError::TooDeep {
                position: self.at,
                deepest: DEEPEST,
            });
        }
        self.at += 1;
        self.open += 1;
        let inner = self.choice()?;
        if !self.eat(')') {
            return Err(self.unexpected("a name, `(`, `|` or `)`"));
        }
        self.open -= 1;
        Ok(inner)
    }

    fn name(&mut self) -> Expression {
        let start = self.at;
        let rest = self.chars.get(start..).unwrap_or_default();
        let name: SmolStr = rest
            .iter()
            .copied()
            .take_while(|&c| !is_reserved(c))
            .collect();
        self.at += name.chars().count();
        let known = self.names.iter().position(|(known, _)| *known == name);
        Expression::Name(known.unwrap_or_else(|| {
            self.names.push((name, start));
            self.names.len() - 1
        }))
    }

    /// Parses the counts in braces.
    fn counts(&mut self) -> Result<(usize, Option<usize>), ExpressionError> {
        let position = self.at;
        self.at += 1;
        let min = self.number()?;
        let max = match self.eat(',') {
            false => Some(min),
            true if self.peek() == Some('}') => None,
            true => Some(self.number()?),
        };
        if !self.eat('}') {
            return Err(self.unexpected("`,` or `}`"));
        }
        match max {
            Some(max) if max < min => Err(ExpressionError::CountsReversed { position, min, max }),
            _ => Ok((min, max)),
        }
    }

    fn number(&mut self) -> Result<usize, ExpressionError> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.unexpected("a number"));
        }
        let position = self.at;
        let mut number = 0;
        while let Some(digit) = self.chars.get(self.at).and_then(|c| c.to_digit(10)) {
            number = number * 10 + digit as usize;
            if number > LARGEST {
                return Err(ExpressionError::CountTooLarge {
                    position,
                    largest: LARGEST,
                });
            }
            self.at += 1;
        }
        Ok(number)
    }
}

fn single(
    mut parts: Vec<Expression>,
    several: impl FnOnce(Vec<Expression>) -> Expression,
) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            several(parts)
        }
    }
}
