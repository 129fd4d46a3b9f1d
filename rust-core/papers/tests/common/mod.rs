//! What the tests of the schemes share.
#![allow(dead_code)] // each test program uses a part

use std::collections::HashMap;
use std::hash::Hash;

use papers::random::Uniform;

/// Steps through all sequences of draws, as an odometer does. Sequences need not be equally long or equally likely.
#[derive(Default)]
pub struct Enumerate {
    digits: Vec<(u32, u32)>, // (value, bound)
    position: usize,
}

impl Uniform for Enumerate {
    fn below(&mut self, bound: u32) -> u32 {
        if self.position == self.digits.len() {
            self.digits.push((0, bound));
        }
        let (value, known) = self.digits[self.position];
        assert_eq!(known, bound);
        self.position += 1;
        value
    }
}

impl Enumerate {
    /// Goes to the next sequence. Returns false after the last.
    fn step(&mut self) -> bool {
        self.digits.truncate(self.position);
        self.position = 0;
        while let Some((value, bound)) = self.digits.pop() {
            if value + 1 < bound {
                self.digits.push((value + 1, bound));
                return true;
            }
        }
        false
    }

    fn probability(&self) -> f64 {
        self.digits[..self.position].iter().map(|&(_, bound)| 1.0 / f64::from(bound)).product()
    }
}

/// The distribution of what a server sees: each view with its probability.
pub type Law<T> = HashMap<T, f64>;

/// The exact distribution of what `run` returns, over all draws.
pub fn law<T: Eq + Hash>(mut run: impl FnMut(&mut Enumerate) -> T) -> Law<T> {
    let mut law = Law::new();
    let mut source = Enumerate::default();
    loop {
        let outcome = run(&mut source);
        *law.entry(outcome).or_default() += source.probability();
        if !source.step() {
            return law;
        }
    }
}

/// Total variation: how much better than by guessing two distributions can be told apart.
pub fn variation<T: Eq + Hash>(a: &Law<T>, b: &Law<T>) -> f64 {
    let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
    keys.map(|key| (a.get(key).unwrap_or(&0.0) - b.get(key).unwrap_or(&0.0)).abs()).sum::<f64>() / 2.0
}

/// The largest variation between the distribution for the first sequence and that for any other.
pub fn worst<T: Eq + Hash>(laws: &[Law<T>]) -> f64 {
    laws.iter().map(|law| variation(&laws[0], law)).fold(0.0, f64::max)
}

/// A bound for rounding errors in floating-point sums of exact probabilities.
pub const EXACT: f64 = 1e-9;
