//! What the charts of the page have in common.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::Result;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Distinguishable with colour blindness, too (Okabe and Ito). doclock's are the first.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];

/// The plotter draws letters at four fifths of the given size.
pub const fn font(size: u32) -> (&'static str, u32) {
    ("sans-serif", size)
}

/// The title, and below it the name of each colour.
pub fn legend(area: &Area<'_>, title: &str, names: &[(&str, RGBAColor)]) -> Result {
    const COLUMN: i32 = 200;
    area.draw(&Text::new(title, (16, 14), font(19)))?;
    let columns = (area.dim_in_pixel().0.cast_signed() / COLUMN).max(1);
    for ((name, colour), index) in names.iter().zip(0..) {
        let (x, y) = (16 + index % columns * COLUMN, 50 + index / columns * 20);
        area.draw(&Rectangle::new(
            [(x, y - 4), (x + 22, y + 4)],
            colour.filled(),
        ))?;
        area.draw(&Text::new(*name, (x + 28, y - 7), font(16)))?;
    }
    Ok(())
}
