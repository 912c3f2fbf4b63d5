//! Numbers as text: base64 VLQ, the form of source maps.
//!
//! A digit has five bits of a number, the lowest ones first. A sixth bit is set if more digits
//! follow. Small numbers are one character, no character has a meaning in HTML, and a page reads a
//! million of them in a few milliseconds.

use std::io::{self, Write};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes a number that is not negative.
pub(super) fn write_unsigned(out: &mut impl Write, mut number: u64) -> io::Result<()> {
    loop {
        let bits = (number & 31) as usize;
        number >>= 5;
        let more = if number > 0 { 32 } else { 0 };
        out.write_all(&[DIGITS[bits | more]])?;
        if number == 0 {
            return Ok(());
        }
    }
}

/// Writes a number whose lowest bit is its sign.
pub(super) fn write_signed(out: &mut impl Write, number: i64) -> io::Result<()> {
    write_unsigned(out, (number.unsigned_abs() << 1) | u64::from(number < 0))
}
