//! The document as Markdown and CSV.

use std::fmt::Write;

use super::measure::{Spread, seconds_shown};

/// A row: its name and its cells.
pub type Row = (String, Vec<Cell>);

/// A row with a paper's figures, as printed.
pub fn paper<const CELLS: usize>(name: &str, figures: [&'static str; CELLS]) -> Row {
    (name.into(), figures.map(Cell::Paper).into())
}

/// A cell of a table.
pub enum Cell {
    /// the paper's figure, as printed; empty if it has none
    Paper(&'static str),
    /// measured
    Time(Spread),
    /// seconds, computed from measurements
    Computed(f64),
    /// bytes counted on the channel, equal to the formula
    Counted(usize),
    /// bytes by the formula, not run
    Formula(usize),
    /// neither given nor run
    None,
}

/// A document in the making.
#[derive(Default)]
pub struct Document {
    /// Markdown
    pub markdown: String,
    /// Comma-separated
    pub csv: String,
}

impl Document {
    /// Appends a paragraph.
    pub fn say(&mut self, text: &str) {
        self.markdown.push_str(text);
        self.markdown.push_str("\n\n");
    }

    /// Appends a table and prints it. The first column has the names of rows.
    pub fn table(&mut self, title: &str, header: &[&str], rows: Vec<Row>) {
        let mut text = format!("### {title}\n\n| | {} |\n|---|{}\n", header.join(" | "), "--:|".repeat(header.len()));
        for (name, cells) in rows {
            let _ = write!(text, "| {name} |");
            for (column, cell) in header.iter().zip(&cells) {
                let _ = write!(text, " {} |", shown(cell));
                if let Some((kind, value)) = plain(cell) {
                    let _ = writeln!(self.csv, "\"{title}\",\"{name}\",\"{column}\",{kind},{value}");
                }
            }
            text.push('\n');
        }
        println!("{text}");
        self.markdown.push_str(&text);
        self.markdown.push('\n');
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Paper("") | Cell::None => "–".into(),
        Cell::Paper(text) => (*text).into(),
        Cell::Time(spread) => spread.to_string(),
        Cell::Computed(seconds) => seconds_shown(*seconds),
        Cell::Counted(bytes) => bytes_shown(*bytes),
        Cell::Formula(bytes) => format!("*{}*", bytes_shown(*bytes)),
    }
}

fn plain(cell: &Cell) -> Option<(&'static str, String)> {
    match cell {
        Cell::Paper("") | Cell::None => None,
        Cell::Paper(text) => Some(("paper", format!("\"{text}\",,"))),
        Cell::Time(spread) => {
            let [median, least, most] = spread.seconds();
            Some(("seconds", format!("{median:e},{least:e},{most:e}")))
        }
        Cell::Computed(seconds) => Some(("computed", format!("{seconds:e},,"))),
        Cell::Counted(bytes) => Some(("bytes", format!("{bytes},,"))),
        Cell::Formula(bytes) => Some(("formula", format!("{bytes},,"))),
    }
}

/// Exact bytes below a megabyte; the papers' units above.
#[allow(clippy::cast_precision_loss)] // shown with three digits
fn bytes_shown(bytes: usize) -> String {
    match bytes as f64 {
        x if x < 1e6 => format!("{bytes} B"),
        x if x < 1e9 => format!("{:.2} MiB", x / f64::from(1 << 20)),
        x => format!("{:.2} GiB", x / f64::from(1 << 30)),
    }
}
