//! What decays first in a code base, checked mechanically: file length, headers, silenced lints, unsafe code, the
//! invariants' checkers, paths of somebody's machine.
//!
//! Not here: what clippy, rustfmt and cargo-deny check by themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines a file should not exceed; longer ones are listed.
const LINES_WANTED: usize = 400;
/// Lines a file must not exceed.
const LINES_MAX: usize = 600;
/// Files that may hold unsafe code, each with a benchmark and a `SAFETY` comment per block.
const UNSAFE_ALLOWED: [&str; 0] = [];
/// Invariants that must have a checker in the simulator.
const INVARIANTS: [u32; 8] = [1, 2, 3, 4, 5, 6, 9, 10];
const ROOMS: [&str; 5] = ["crdt", "mesh", "gateway-plugin", "sim", "benches"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// Every file below `folder` (build output and hidden ones aside), by its path from the root.
fn files_below(folder: &Path, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder can be read").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') || ["target", "node_modules", "dist", "Cargo.lock"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            files_below(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let relative = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            found.push((relative, text));
        }
    }
}

/// (path, text) of every text file of the workspace.
fn texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    ROOMS.iter().for_each(|room| files_below(&root().join(room), &mut found));
    let at_the_top = ["README.md", "ARCHITECTURE.md", "Makefile", "Cargo.toml", "deny.toml", ".ci/run"];
    for name in at_the_top {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            found.push((name.into(), text));
        }
    }
    assert!(found.len() > 50, "the workspace was found");
    found
}

fn sources() -> Vec<(String, String)> {
    texts().into_iter().filter(|(path, _)| path.ends_with(".rs")).collect()
}

/// `path:line` of every line outside comments for which `is_wrong` holds.
fn lines_where(sources: &[(String, String)], is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in sources {
        for (line, number) in text.lines().zip(1..) {
            if !line.trim_start().starts_with("//") && is_wrong(line) {
                wrong.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    wrong
}

fn assert_none(wrong: &[String], rule: &str) {
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

#[test]
fn files_stay_short_enough_to_read() {
    let long = |limit: usize| {
        let longer = sources().into_iter().map(|(path, text)| (path, text.lines().count()));
        longer.filter(|(_, lines)| *lines > limit).map(|(path, lines)| format!("{path}: {lines}")).collect::<Vec<_>>()
    };
    for file in long(LINES_WANTED) {
        eprintln!("over {LINES_WANTED} lines: {file}");
    }
    assert_none(&long(LINES_MAX), "files over the limit, to be split by what they are about");
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//! ")).map(|(path, _)| path).collect();
    assert_none(&silent, "files that do not open with `//!`");
}

#[test]
fn no_lint_is_silenced_and_no_test_skipped() {
    let silencers = [concat!("#[", "allow("), concat!("#![", "allow("), concat!("#[", "ignore")];
    let wrong = lines_where(&sources(), |line| silencers.iter().any(|silencer| line.contains(silencer)));
    assert_none(&wrong, "expect a lint with a reason instead, and run every test");
}

#[test]
fn no_code_is_unsafe() {
    let word = concat!("un", "safe");
    let forms = [" {", " fn", " impl", " extern", " trait", "_code"].map(|form| format!("{word}{form}"));
    let checked: Vec<_> = sources().into_iter().filter(|(path, _)| !UNSAFE_ALLOWED.contains(&path.as_str())).collect();
    let wrong = lines_where(&checked, |line| forms.iter().any(|form| line.contains(form)));
    assert_none(&wrong, "unsafe code outside the list in this test");
}

#[test]
fn every_package_takes_the_workspaces_lints() {
    let heading = "[lints]\nworkspace = true";
    let without: Vec<_> = ROOMS
        .iter()
        .map(|room| format!("{room}/Cargo.toml"))
        .filter(|path| !fs::read_to_string(root().join(path)).expect("a manifest").contains(heading))
        .collect();
    assert_none(&without, "packages without the workspace's lints");
}

#[test]
fn every_invariant_is_cited_by_its_checker() {
    let mut cited = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| path.starts_with("sim/src/invariants/")) {
        // `made` holds the worlds made by hand that the checkers are tried on.
        let Some(name) = path.rsplit('/').next().filter(|name| !["mod.rs", "made.rs"].contains(name)) else { continue };
        let number = name.trim_start_matches('i').split('_').next().and_then(|digits| digits.parse::<u32>().ok());
        let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        match number {
            Some(number) if header.contains(&format!("I{number}")) => {
                cited.insert(number);
            }
            _ => wrong.push(path.clone()),
        }
    }
    // Convergence is about the whole run, not one moment, so the world itself reports it.
    let reports = |number: &u32| {
        let report = format!("violation(\"I{number}\"");
        sources().iter().any(|(path, text)| path.starts_with("sim/src/") && text.contains(&report))
    };
    cited.extend(INVARIANTS.iter().filter(|number| reports(number)));
    assert_none(&wrong, "checkers are named `i<number>_….rs` and cite their invariant in the header");
    let missing: Vec<_> = INVARIANTS.iter().filter(|number| !cited.contains(number)).map(|n| format!("I{n}")).collect();
    assert_none(&missing, "invariants that nothing in the simulator checks");
}

#[test]
fn no_path_of_somebodys_machine_is_written_down() {
    let homes = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/tmp/", "wt")];
    let starts_a_path = |line: &str, at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric());
    let is_named = |line: &str| homes.iter().any(|home| line.find(home).is_some_and(|at| starts_a_path(line, at)));
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        for (line, number) in text.lines().zip(1..) {
            if is_named(line) {
                wrong.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert_none(&wrong, "absolute paths of one machine");
}
