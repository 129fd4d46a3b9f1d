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

    /// Appends a table and prints it. The first column has the names of rows. Sizes that were not run are in the CSV alone.
    pub fn table(&mut self, title: &str, header: &[&str], rows: &[Row]) {
        self.figures(title, header, rows);
        let shown: Vec<&Row> = rows.iter().filter(|row| is_run(size(row), rows)).collect();
        // Columns without a figure are left out.
        let columns: Vec<usize> =
            (0..header.len()).filter(|&n| shown.iter().any(|row| plain(&row.1[n]).is_some())).collect();
        let heads: Vec<_> = columns.iter().map(|&n| header[n].to_owned()).collect();
        let lines = shown.iter().map(|(name, cells)| (name, columns.iter().map(|&n| &cells[n]).collect()));
        self.lines(title, &heads, lines.collect());
    }

    /// The same, with the paper's figures beside ours: a paper's row belongs to the row after it.
    pub fn beside(&mut self, title: &str, header: &[&str], rows: &[Row]) {
        self.figures(title, header, rows);
        let heads: Vec<_> =
            header.iter().flat_map(|head| [format!("{head}, paper"), format!("{head}, ours")]).collect();
        let (mut lines, mut theirs) = (Vec::new(), None);
        for row @ (name, cells) in rows {
            if cells.iter().all(|cell| matches!(cell, Cell::Paper(_))) {
                theirs = Some(cells);
                continue;
            }
            let theirs = theirs.take();
            let pair = |(n, cell)| [theirs.map_or(&Cell::None, |cells: &Vec<Cell>| &cells[n]), cell];
            if is_run(size(row), rows) {
                lines.push((name, cells.iter().enumerate().flat_map(pair).collect()));
            }
        }
        self.lines(title, &heads, lines);
    }

    fn figures(&mut self, title: &str, header: &[&str], rows: &[Row]) {
        for (name, cells) in rows {
            for (column, cell) in header.iter().zip(cells) {
                if let Some((kind, value)) = plain(cell) {
                    let _ = writeln!(self.csv, "\"{title}\",\"{name}\",\"{column}\",{kind},{value}");
                }
            }
        }
    }

    fn lines(&mut self, title: &str, header: &[String], lines: Vec<(&String, Vec<&Cell>)>) {
        let mut text = format!("### {title}\n\n| | {} |\n|---|{}\n", header.join(" | "), "--:|".repeat(header.len()));
        for (name, cells) in lines {
            let cells: Vec<_> = cells.into_iter().map(shown).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        println!("{text}");
        self.markdown.push_str(&text);
        self.markdown.push('\n');
    }
}

/// The size in a row's name, `AES, 2^20 × 32 B`; empty if it has none.
fn size((name, _): &Row) -> &str {
    name.find("2^").map_or("", |at| &name[at..])
}

/// Whether something of that size was measured.
fn is_run(wanted: &str, rows: &[Row]) -> bool {
    rows.iter().any(|row| size(row) == wanted && row.1.iter().any(|cell| matches!(cell, Cell::Time(_))))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Columns in the order that all rows agree on.
    fn insert<'a>(columns: &mut Vec<&'a str>, row: &[&'a str]) {
        for (n, column) in row.iter().enumerate() {
            if columns.contains(column) {
                continue;
            }
            let next = row[n..].iter().find_map(|later| columns.iter().position(|known| known == later));
            columns.insert(next.unwrap_or(columns.len()), column);
        }
    }

    fn cell([kind, value, least, most]: [&'static str; 4]) -> Cell {
        let seconds = |text: &str| Duration::from_secs_f64(text.parse().unwrap());
        match kind {
            "paper" => Cell::Paper(value.trim_matches('"')),
            "computed" => Cell::Computed(value.parse().unwrap()),
            "bytes" => Cell::Counted(value.parse().unwrap()),
            "formula" => Cell::Formula(value.parse().unwrap()),
            "seconds" if least == most => Cell::Time(Spread::new(vec![seconds(value)])),
            "seconds" => Cell::Time(Spread::new([least, value, most].map(seconds).into())),
            _ => panic!("{kind}"),
        }
    }

    #[test]
    fn the_page_has_the_figures_of_papers_csv() {
        const CSV: &str = include_str!("../../../../docs/papers.csv");
        const PAGE: &str = include_str!("../../../../docs/papers.md");
        let figures: Vec<[&'static str; 3]> = CSV
            .lines()
            .skip(1)
            .map(|line| line[1..].splitn(3, "\",\"").collect::<Vec<_>>().try_into().unwrap())
            .collect();
        let mut document = Document::default();
        for table in figures.chunk_by(|a, b| a[0] == b[0]) {
            let (mut columns, mut rows) = (Vec::new(), Vec::new());
            let split = |figure: &[&'static str; 3]| figure[2].split_once("\",").unwrap();
            let lines: Vec<_> = table.chunk_by(|a, b| a[1] == b[1]).collect();
            for line in &lines {
                insert(&mut columns, &line.iter().map(|figure| split(figure).0).collect::<Vec<_>>());
            }
            for line in lines {
                let is_paper = split(&line[0]).1.starts_with("paper");
                let cells = columns.iter().map(|column| {
                    let found = line.iter().map(split).find(|(name, _)| name == column);
                    let none = if is_paper { Cell::Paper("") } else { Cell::None };
                    found.map_or(none, |(_, figure)| cell(figure.split(',').collect::<Vec<_>>().try_into().unwrap()))
                });
                rows.push((line[0][1].to_owned(), cells.collect()));
            }
            let title = table[0][0];
            match title {
                _ if title.starts_with("Pai,") || title.starts_with("TAPIR,") => {
                    document.beside(title, &columns, &rows);
                }
                _ => document.table(title, &columns, &rows),
            }
        }
        assert_eq!(document.csv, CSV.split_once('\n').unwrap().1);
        for table in document.markdown.trim().split("\n\n### ") {
            assert!(PAGE.contains(table), "docs/papers.md has no table as papers.csv makes it:\n{table}");
        }
    }
}
