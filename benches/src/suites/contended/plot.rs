//! The plot: for each duration, the remaining part of one thread's rate as threads are added.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::bare;
use super::table::Case;
use crate::Result;

const PANEL: (u32, u32) = (440, 380);

/// Above the panels, for the legend.
const LEGEND: u32 = 90;

/// Distinguishable with colour blindness, too (Okabe and Ito). doclock's are the first.
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];

/// The plotter draws letters at four fifths of the given size.
const fn font(size: u32) -> (&'static str, u32) {
    ("sans-serif", size)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of the plot.
struct Line {
    subject: &'static str,
    style: ShapeStyle,
}

pub fn draw(file: &Path, cases: &[Case]) -> Result {
    let mut panels: Vec<&[Case]> = cases
        .chunk_by(|one, next| one.length == next.length)
        .collect();
    panels.retain(|panel| !panel.is_empty());
    let width = PANEL.0 * u32::try_from(panels.len().max(1))?;
    let root = SVGBackend::new(file, (width, LEGEND + PANEL.1)).into_drawing_area();
    // White, so it is readable on a dark page as well.
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND);
    let lines = lines(cases);
    legend(&top, &lines)?;
    let rows = cases.iter().flat_map(|case| &case.subjects);
    let highest = rows.map(|(_, row)| row.percent).fold(100.0, f64::max);
    for (area, cases) in rest.split_evenly((1, panels.len())).iter().zip(&panels) {
        panel(area, cases, highest, &lines)?;
    }
    root.present()?;
    Ok(())
}

fn lines(cases: &[Case]) -> Vec<Line> {
    let subjects = cases.first().into_iter().flat_map(|case| &case.subjects);
    subjects
        .map(|(subject, _)| *subject)
        .filter(|subject| *subject != bare::NAME)
        .zip(COLOURS.iter().cycle())
        .map(|(subject, colour)| {
            let width = if subject.starts_with("doclock") { 3 } else { 2 };
            let style = colour.stroke_width(width);
            Line { subject, style }
        })
        .collect()
}

fn legend(area: &Area<'_>, lines: &[Line]) -> Result {
    const COLUMN: i32 = 200;
    let title = "Transactions a second of all threads, in % of one thread without a lock";
    area.draw(&Text::new(title, (16, 14), font(19)))?;
    let columns = (area.dim_in_pixel().0.cast_signed() / COLUMN).max(1);
    for (line, index) in lines.iter().zip(0..) {
        let (x, y) = (16 + index % columns * COLUMN, 50 + index / columns * 20);
        area.draw(&PathElement::new([(x, y), (x + 22, y)], line.style))?;
        area.draw(&Text::new(line.subject, (x + 28, y - 7), font(16)))?;
    }
    Ok(())
}

fn panel(area: &Area<'_>, cases: &[Case], highest: f64, lines: &[Line]) -> Result {
    let threads: Vec<f64> = cases.iter().map(|case| case.threads as f64).collect();
    let (least, most) = threads
        .iter()
        .fold((f64::MAX, 1.0_f64), |(least, most), &count| {
            (least.min(count), most.max(count))
        });
    // An axis needs two ends.
    let most = most.max(2.0 * least);
    let title = cases.first().map_or(String::new(), |case| {
        format!(
            "Transactions of {} µs (operations: {})",
            case.length.micros, case.length.operations
        )
    });
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(22)
        .caption(title, font(18))
        .x_label_area_size(38)
        .y_label_area_size(42)
        .build_cartesian_2d(
            (least..most).log_scale().base(2.0).with_key_points(threads),
            0.0..highest * 1.05,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("threads")
        .x_label_formatter(&|count| format!("{count:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0} %"))
        .label_style(font(15))
        .draw()?;
    for line in lines {
        let points: Vec<_> = cases
            .iter()
            .filter_map(|case| point(case, line.subject))
            .collect();
        chart.draw_series(LineSeries::new(points.iter().copied(), line.style))?;
        let dot = |&point| Circle::new(point, 3, line.style.filled());
        chart.draw_series(points.iter().map(dot))?;
    }
    Ok(())
}

fn point(case: &Case, subject: &str) -> Option<(f64, f64)> {
    let (_, row) = case.subjects.iter().find(|(name, _)| *name == subject)?;
    Some((case.threads as f64, row.percent))
}
