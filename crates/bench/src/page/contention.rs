//! The chart of contention: for each duration, the remaining part of one thread's rate as threads
//! are added.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::compare::is_floor;
use super::rows::{Contended, Results};
use super::style::{Area, COLOURS, font, legend};
use crate::Result;

const PANEL: (u32, u32) = (440, 380);

/// Above the panels, for the legend.
const LEGEND: u32 = 90;

const TITLE: &str = "Transactions a second of all threads, in % of one thread without a lock";

/// A line of the chart.
struct Line<'r> {
    subject: &'r str,
    style: ShapeStyle,
}

/// A subject with a number of threads.
type Point<'r> = (&'r str, &'r Contended);

pub fn draw(file: &Path, results: &Results) -> Result {
    let rows = results.rows("contended");
    let rows = rows.filter_map(|row| Some((row.subject.as_str(), row.contended.as_ref()?)));
    let points: Vec<Point<'_>> = rows.filter(|(subject, _)| !is_floor(subject)).collect();
    let panels = points.chunk_by(|(_, one), (_, next)| one.length == next.length);
    let panels: Vec<_> = panels.collect();
    if panels.is_empty() {
        return Err("no rows of the suite contended".into());
    }
    let width = PANEL.0 * u32::try_from(panels.len().max(1))?;
    let root = SVGBackend::new(file, (width, LEGEND + PANEL.1)).into_drawing_area();
    // White, so it is readable on a dark page as well.
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND);
    let lines = lines(panels[0]);
    let names = lines.iter().map(|line| (line.subject, line.style.color));
    legend(&top, TITLE, &names.collect::<Vec<_>>())?;
    let percents = points.iter().map(|(_, point)| point.percent);
    let highest = percents.fold(100.0, f64::max);
    for (area, points) in rest.split_evenly((1, panels.len())).iter().zip(&panels) {
        panel(area, points, highest, &lines)?;
    }
    root.present()?;
    Ok(())
}

fn lines<'r>(points: &[Point<'r>]) -> Vec<Line<'r>> {
    let threads = points.first().map(|(_, point)| point.threads);
    points
        .iter()
        .filter(|(_, point)| Some(point.threads) == threads)
        .zip(COLOURS.iter().cycle())
        .map(|((subject, _), colour)| {
            let width = if subject.starts_with("doclock") { 3 } else { 2 };
            let style = colour.stroke_width(width);
            Line { subject, style }
        })
        .collect()
}

fn panel(area: &Area<'_>, points: &[Point<'_>], highest: f64, lines: &[Line<'_>]) -> Result {
    let mut threads: Vec<f64> = points
        .iter()
        .map(|(_, point)| point.threads as f64)
        .collect();
    threads.dedup();
    let least = threads.iter().copied().fold(f64::MAX, f64::min);
    let most = threads.iter().copied().fold(1.0, f64::max);
    // An axis needs two ends.
    let most = most.max(2.0 * least);
    let title = points.first().map_or(String::new(), |(_, point)| {
        format!(
            "Transactions of {} µs (operations: {})",
            point.length, point.operations
        )
    });
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(22)
        .caption(title, font(18))
        .x_label_area_size(38)
        .y_label_area_size(66)
        .build_cartesian_2d(
            (least..most).log_scale().base(2.0).with_key_points(threads),
            0.0..highest * 1.05,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("threads")
        .y_desc("of one thread without a lock")
        .x_label_formatter(&|count| format!("{count:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0} %"))
        .label_style(font(15))
        .draw()?;
    for line in lines {
        let own = points
            .iter()
            .filter(|(subject, _)| *subject == line.subject);
        let own = own.map(|(_, point)| (point.threads as f64, point.percent));
        let own: Vec<_> = own.collect();
        chart.draw_series(LineSeries::new(own.iter().copied(), line.style))?;
        let dot = |&point| Circle::new(point, 3, line.style.filled());
        chart.draw_series(own.iter().map(dot))?;
    }
    Ok(())
}
