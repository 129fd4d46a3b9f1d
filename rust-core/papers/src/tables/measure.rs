//! Measures times, as processor time of this thread. Other work of the machine does not count, though it shares the caches.

use std::fmt;
use std::time::Duration;

/// Which sizes are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// N up to 2^20, keyword schemes up to 2^16
    Quick,
    /// everything that fits a machine with 16 GB
    Full,
}

use cpu_time::ThreadTime;

/// The times of several runs.
#[derive(Debug, Clone)]
pub struct Spread(Vec<Duration>);

impl Spread {
    /// The spread of some times; at least one.
    pub fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "measured nothing");
        times.sort_unstable();
        Spread(times)
    }

    /// Median, least and most, in seconds.
    pub fn seconds(&self) -> [f64; 3] {
        let last = self.0.len() - 1;
        [self.0[last / 2], self.0[0], self.0[last]].map(|time| time.as_secs_f64())
    }

    /// The median, in seconds.
    pub fn median(&self) -> f64 {
        self.seconds()[0]
    }
}

/// A unit of time: its name, how many of it are a second, and the digits to show.
fn unit(seconds: f64) -> (&'static str, f64, usize) {
    match seconds {
        x if x >= 0.1 => ("s", 1.0, 2),
        x if x >= 0.1e-3 => ("ms", 1e3, 2),
        _ => ("µs", 1e6, 1),
    }
}

/// The time in the unit that suits it.
pub fn seconds_shown(seconds: f64) -> String {
    let (unit, factor, digits) = unit(seconds);
    format!("{:.digits$} {unit}", seconds * factor)
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, least, most] = self.seconds();
        if self.0.len() == 1 {
            return f.write_str(&seconds_shown(median));
        }
        let (_, factor, digits) = unit(median);
        write!(f, "**{}** ({:.digits$}–{:.digits$})", seconds_shown(median), least * factor, most * factor)
    }
}

/// The time of one run, and its result.
pub fn once<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let begin = ThreadTime::now();
    let result = run();
    (begin.elapsed(), result)
}

/// The times of several runs, and the last result. Before several runs, one that does not count warms up.
pub fn repeat<T>(times: usize, mut run: impl FnMut() -> T) -> (Spread, T) {
    let mut last = if times > 1 { Some(run()) } else { None };
    let spread = (0..times).map(|_| {
        let (time, result) = once(&mut run);
        last = Some(result);
        time
    });
    let spread = Spread::new(spread.collect());
    (spread, last.expect("run at least once"))
}

/// The mean times of batches of a short function.
pub fn batches(batches: usize, each: usize, mut run: impl FnMut(usize)) -> Spread {
    let mut n = 0;
    let mut batch = || {
        for _ in 0..each {
            run(n);
            n += 1;
        }
    };
    batch();
    Spread::new((0..batches).map(|_| once(&mut batch).0 / each as u32).collect())
}
