//! Names in error texts, shortened.

use std::fmt::{self, Write};

/// A name in an error text: complete up to [`LONGEST`] bytes, otherwise its beginning with an
/// ellipsis and its length. Names of users have any length, and each error about them repeats them.
///
/// The fields of errors have complete names.
pub struct Brief<T>(pub T);

/// At most so many bytes of a name are shown, without a partial character at the end.
pub const LONGEST: usize = 128;

impl<T: fmt::Display> fmt::Display for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, format_args!("{}", self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, format_args!("{:?}", self.0))
    }
}

fn show(f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    let mut beginning = Beginning {
        f,
        shown: 0,
        len: 0,
    };
    beginning.write_fmt(text)?;
    let Beginning { f, shown, len } = beginning;
    match len > shown {
        true => write!(f, "… ({len} bytes)"),
        false => Ok(()),
    }
}

/// Writes only the beginning, and counts everything.
struct Beginning<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    shown: usize,
    len: usize,
}

impl Write for Beginning<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_whole = self.shown == self.len;
        self.len += text.len();
        if !is_whole {
            return Ok(());
        }
        let end = text.floor_char_boundary(LONGEST - self.shown);
        self.shown += end;
        self.f.write_str(text.get(..end).unwrap_or_default())
    }
}
