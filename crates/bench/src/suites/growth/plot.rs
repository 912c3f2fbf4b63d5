//! One chart for each dimension: two versions, with logarithmic axes.

use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::ladder::Row;
use crate::Result;

const SIZE: (u32, u32) = (420, 340);

/// Above the plane, for title and legend.
const TOP: u32 = 56;

/// Distinguishable with colour blindness, too (Okabe and Ito).
const VERSIONS: [(&str, RGBColor); 2] = [
    ("before", RGBColor(213, 94, 0)),
    ("after", RGBColor(0, 114, 178)),
];

const GUIDE: RGBColor = RGBColor(130, 130, 130);

/// Linear and quadratic cost.
const GUIDES: [(&str, f64); 2] = [("n", 1.0), ("n²", 2.0)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The rows of each version.
type Versions<'a> = [Vec<&'a Row>; VERSIONS.len()];

/// Size and value.
type Point = (f64, f64);

/// Draws a file for each dimension of the second version. Returns how many.
pub fn draw(folder: &Path, before: &Path, after: &Path) -> Result<usize> {
    fs::create_dir_all(folder)?;
    let versions = [rows(before)?, rows(after)?];
    let dimensions = versions[1].chunk_by(|one, next| one.case == next.case);
    let mut charts = 0;
    for first in dimensions.filter_map(|rows| rows.first()) {
        let same = |row: &&Row| row.case == first.case;
        let rows = versions.each_ref();
        let rows = rows.map(|rows| rows.iter().filter(same).collect());
        chart(&folder.join(format!("{}.svg", first.case)), first, &rows)?;
        charts += 1;
    }
    Ok(charts)
}

fn rows(file: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows: serde_json::Result<_> = text.lines().map(serde_json::from_str).collect();
    Ok(rows?)
}

fn chart(file: &Path, first: &Row, versions: &Versions<'_>) -> Result {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    // White, so it is readable on a dark page as well.
    root.fill(&WHITE)?;
    let (top, plane) = root.split_vertically(TOP);
    let rows = || versions.iter().flatten();
    let refused = rows().any(|row| row.refused.is_some());
    legend(&top, &first.title, refused)?;
    let (sizes, values): (Vec<_>, Vec<_>) = rows().map(|row| point(row)).unzip();
    let (sizes, values) = (Decades::of(&sizes), Decades::of(&values));
    let mut chart = ChartBuilder::on(&plane)
        .margin(8)
        .margin_right(26)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(
            sizes.range().log_scale().with_key_points(sizes.each()),
            values.range().log_scale().with_key_points(values.each()),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(&first.input)
        .x_label_formatter(&|size| thousands(*size as u64))
        .y_label_formatter(&|value| {
            let (power, name) = first.unit.scale(*value);
            format!("{power:.0} {name}")
        })
        .label_style(font(15))
        .draw()?;
    if let Some(start) = rows().next().map(|row| point(row)) {
        for (name, power) in GUIDES {
            let x = f64::min(
                sizes.most(),
                start.0 * (values.most() / start.1).powf(1.0 / power),
            );
            let end = (x, start.1 * (x / start.0).powf(power));
            let line = DashedLineSeries::new([start, end], 4, 4, GUIDE.stroke_width(1));
            chart.draw_series(line)?;
            let name = EmptyElement::at(end)
                + Text::new(name, (4, -6), font(14).into_font().color(&GUIDE));
            chart.draw_series([name])?;
        }
    }
    for (rows, (_, colour)) in versions.iter().zip(VERSIONS) {
        let points = rows.iter().map(|row| point(row));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        let dots = rows
            .iter()
            .flat_map(|row| dot(point(row), colour, row.refused.is_some()));
        chart.draw_series(dots)?;
    }
    root.present()?;
    Ok(())
}

fn legend(area: &Area<'_>, title: &str, refused: bool) -> Result {
    const COLUMN: i32 = 90;
    let row = 38;
    area.draw(&Text::new(title, (14, 10), font(17)))?;
    for ((name, colour), x) in VERSIONS.into_iter().zip((14..).step_by(COLUMN as usize)) {
        area.draw(&PathElement::new(
            [(x, row), (x + 20, row)],
            colour.stroke_width(2),
        ))?;
        area.draw(&Text::new(name, (x + 26, row - 7), font(15)))?;
    }
    if refused {
        let x = 14 + 2 * COLUMN;
        for circle in dot((x + 10, row), BLACK, true) {
            area.draw(&circle)?;
        }
        area.draw(&Text::new("refused", (x + 26, row - 7), font(15)))?;
    }
    Ok(())
}

/// Two circles, so that a line through a hollow dot does not show.
fn dot<C>(at: C, colour: RGBColor, hollow: bool) -> [Circle<C, i32>; 2]
where
    C: Copy,
{
    let inside = if hollow { WHITE } else { colour };
    [(4, colour), (2, inside)].map(|(radius, colour)| Circle::new(at, radius, colour.filled()))
}

fn point(row: &Row) -> Point {
    // A logarithmic axis cannot begin at zero.
    (row.size as f64, row.value.max(1.0))
}

/// The powers of ten around all values.
struct Decades {
    least: i32,
    most: i32,
}

impl Decades {
    fn of(values: &[f64]) -> Self {
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        let most = values.iter().copied().fold(least, f64::max);
        let least = least.log10().floor() as i32;
        // An axis needs two ends.
        let most = (most.log10().ceil() as i32).max(least + 1);
        Self { least, most }
    }

    fn each(&self) -> Vec<f64> {
        (self.least..=self.most)
            .map(|power| 10f64.powi(power))
            .collect()
    }

    fn most(&self) -> f64 {
        10f64.powi(self.most)
    }

    fn range(&self) -> Range<f64> {
        10f64.powi(self.least)..self.most()
    }
}

fn thousands(number: u64) -> String {
    match number {
        1_000.. => format!("{},{:03}", number / 1_000, number % 1_000),
        _ => number.to_string(),
    }
}

/// The plotter draws letters at four fifths of the given size.
const fn font(size: u32) -> (&'static str, u32) {
    ("sans-serif", size)
}
