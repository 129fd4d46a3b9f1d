//! Checks that the crates' modules have no cycles: of two modules, at most one uses the other, directly or through others
//! (docs/ARCHITECTURE.md). Cargo checks the same of crates.
//!
//! A module uses what its source names: paths that begin with `crate`, `super`, `self` or a child's name. A reexport
//! (`pub use child::Name`) counts as a use of the module that defines the name. Unit tests may name anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The folders of crates with modules, from rust-core/.
const CRATES: [&str; 6] = [
    "core/src",
    "kernels/src",
    "wasm/src",
    "papers/src",
    "../packages/pointproofs/rust/pointproofs/src",
    "../packages/pointproofs/rust/wasm/src",
];

/// `["cost", "modes"]`; `[]` is the crate itself.
type Module = Vec<String>;

fn child_of(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

/// Each module's source, in words and punctuation.
type Sources = BTreeMap<Module, Vec<String>>;

fn sources(folder: &Path, module: &Module, into: &mut Sources) {
    for entry in fs::read_dir(folder).expect("a crate's folder").map(Result::unwrap) {
        let name = entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
        let child = child_of(module, &name);
        if entry.path().is_dir() {
            sources(&entry.path(), &child, into);
        } else if name.as_str() == "mod" || module.is_empty() && ["lib", "main"].contains(&name.as_str()) {
            into.entry(module.clone()).or_default().extend(words(&fs::read_to_string(entry.path()).unwrap()));
        } else {
            into.insert(child, words(&fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// The source without comments, and without the unit tests at the end.
fn words(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let mut words: Vec<String> = Vec::new();
    let mut inside = false;
    for character in source.lines().flat_map(|line| line.split("//").next().unwrap().chars().chain(['\n'])) {
        let continues = character.is_alphanumeric() || character == '_';
        match words.last_mut() {
            Some(last) if continues && inside => last.push(character),
            Some(last) if character == ':' && last == ":" => last.push(character),
            _ if character.is_whitespace() => {}
            _ => words.push(character.into()),
        }
        inside = continues;
    }
    words
}

/// The paths of a tree such as `a::{b, c::D}`; `before` has been read already. Returns the rest.
fn paths<'w>(mut words: &'w [String], mut before: Vec<String>, into: &mut Vec<Vec<String>>) -> &'w [String] {
    while let [sign, next, rest @ ..] = words {
        if sign != "::" {
            break;
        }
        words = rest;
        if next == "{" {
            while let [name, rest @ ..] = words {
                words = rest;
                match name.as_str() {
                    "}" => return words,
                    "," => {}
                    _ => words = paths(rest, child_of(&before, name), into),
                }
            }
        }
        before.push(next.clone());
    }
    into.push(before);
    words
}

/// All paths that a module names, from the crate on, and whether each is a reexport only.
fn named(sources: &Sources, module: &Module) -> Vec<(Module, bool)> {
    let words = &sources[module];
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let begins = words.get(at + 1).is_some_and(|next| next == "::") && (at == 0 || words[at - 1] != "::");
        let is_child = sources.contains_key(&child_of(module, word));
        let base = match word.as_str() {
            _ if !begins => continue,
            "crate" => vec![],
            "self" => module.clone(),
            "super" => module[..module.len() - 1].to_vec(),
            _ if is_child => child_of(module, word),
            _ => continue,
        };
        let mut found = Vec::new();
        paths(&words[at + 1..], vec![], &mut found);
        // `pub use`, `pub(crate) use`
        let passed_on = at > 1 && words[at - 1] == "use" && ["pub", ")"].contains(&words[at - 2].as_str());
        for path in found {
            let up = path.iter().take_while(|name| *name == "super").count();
            let from = &base[..base.len() - up];
            named.push(([from, &path[up..]].concat(), passed_on));
        }
    }
    named
}

/// The module that defines the name at the end of a path.
fn home(sources: &Sources, path: &[String]) -> Module {
    let length = (0..=path.len()).rev().find(|&length| sources.contains_key(&path[..length])).unwrap();
    let (module, rest) = path.split_at(length);
    let passed_on = named(sources, &module.to_vec()).into_iter().filter(|(_, passed_on)| *passed_on);
    let found = rest.first().and_then(|name| passed_on.map(|(path, _)| path).find(|path| path.last() == Some(name)));
    found.map_or(module.to_vec(), |path| home(sources, &path))
}

fn known_by(sources: &Sources, module: &Module) -> BTreeSet<Module> {
    let words = &sources[module];
    let is_used = |path: &Module| words.iter().filter(|word| Some(*word) == path.last()).count() > 1;
    let named = named(sources, module).into_iter().filter(|(path, passed_on)| !passed_on || is_used(path));
    named.map(|(path, _)| home(sources, &path)).filter(|other| other != module).collect()
}

#[test]
fn no_modules_know_each_other() {
    for folder in CRATES {
        let mut sources = Sources::new();
        self::sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder), &vec![], &mut sources);
        let mut known: BTreeMap<_, _> =
            sources.keys().map(|module| (module.clone(), known_by(&sources, module))).collect();
        assert!(known.values().any(|known| !known.is_empty()), "{folder}: nothing was read");
        // Leaves out modules that use none of the others, or that none of the others uses. What stays is on circles.
        loop {
            let left = known.clone();
            let is_used = |module: &Module| left.values().any(|others| others.contains(module));
            known.retain(|module, others| is_used(module) && others.iter().any(|other| left.contains_key(other)));
            if known.len() == left.len() {
                break;
            }
        }
        assert!(
            known.is_empty(),
            "{folder}: modules on circles. Move what both need into a module that knows neither, or what knows both into one \
             above them.\n{known:?}",
        );
    }
}
