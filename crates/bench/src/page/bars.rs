//! Bars in groups, on a logarithmic axis.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::rows::Results;
use super::style::{COLOURS, font, legend};
use super::table::{measure, measure_to};
use crate::Result;

const SIZE: (u32, u32) = (880, 420);

/// Above the plane, for the legend.
const LEGEND: u32 = 84;

/// The part of a group that its bars take.
const FILLED: f64 = 0.86;

/// What a chart of bars shows of a suite.
pub struct Bars {
    pub suite: &'static str,
    pub title: &'static str,
    /// Each case with the name of its group.
    pub cases: &'static [(&'static str, &'static str)],
    pub subjects: &'static [&'static str],
    pub axis: &'static str,
    pub unit: &'static str,
}

impl Bars {
    pub fn draw(&self, file: &Path, results: &Results) -> Result {
        let rows = results.rows(self.suite);
        let values: Vec<(usize, usize, f64)> = rows
            .filter_map(|row| {
                let group = self.cases.iter().position(|(case, _)| *case == row.case)?;
                let subject = self.subjects.iter().position(|name| *name == row.subject)?;
                Some((group, subject, row.value?))
            })
            .collect();
        if values.is_empty() {
            return Err(format!("no rows of the suite {}", self.suite).into());
        }
        let least = values
            .iter()
            .map(|(.., value)| *value)
            .fold(f64::MAX, f64::min);
        let most = values.iter().map(|(.., value)| *value).fold(1.0, f64::max);
        let bottom = 10f64.powf((least / 2.0).log10().floor());
        let root = SVGBackend::new(file, SIZE).into_drawing_area();
        // White, so it is readable on a dark page as well.
        root.fill(&WHITE)?;
        let (top, plane) = root.split_vertically(LEGEND);
        let names = self.subjects.iter().zip(COLOURS);
        let names = names.map(|(name, colour)| (*name, colour.to_rgba()));
        legend(&top, self.title, &names.collect::<Vec<_>>())?;
        let groups = self.cases.len();
        let decades = (bottom.log10() as i32..=most.log10() as i32).map(|power| 10f64.powi(power));
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * decade));
        let end = most * 1.6;
        let ticks = ticks.filter(|tick| *tick <= end);
        let range = (bottom..end).log_scale().with_key_points(ticks.collect());
        let mut chart = ChartBuilder::on(&plane)
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(96)
            .build_cartesian_2d(0.0..groups as f64, range)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .y_desc(self.axis)
            .y_label_formatter(&|value| measure_to(1, *value, self.unit))
            .label_style(font(15))
            .draw()?;
        let width = FILLED / self.subjects.len() as f64;
        for (group, subject, value) in values {
            let left = group as f64 + (1.0 - FILLED) / 2.0 + subject as f64 * width;
            let colour = COLOURS[subject % COLOURS.len()];
            let bar = [(left, bottom), (left + width * 0.9, value)];
            chart.draw_series([Rectangle::new(bar, colour.filled())])?;
            let label = measure(value, self.unit);
            let label = Text::new(label, (0, -15), font(13));
            chart.draw_series([EmptyElement::at((left, value)) + label])?;
        }
        for (nth, (_, name)) in self.cases.iter().enumerate() {
            let at = (nth as f64 + (1.0 - FILLED) / 2.0, bottom);
            let name = Text::new(*name, (0, 10), font(16));
            chart.draw_series([EmptyElement::at(at) + name])?;
        }
        root.present()?;
        Ok(())
    }
}
