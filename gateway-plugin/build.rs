//! Embeds the built dashboard (`dashboard/dist`, made by `make dashboard`) when it is there. Without it the gateway serves
//! the plain page, and nothing here needs npm.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("dashboard");
    let dist = root.join("dist");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &dist, &mut files)?;
        println!("cargo::rerun-if-changed=dashboard/dist");
    } else {
        // A path that is missing counts as changed at every build; its parent changes when it comes.
        println!("cargo::rerun-if-changed=dashboard");
    }
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in files {
        writeln!(code, "    ({name:?}, include_bytes!({path:?})),").expect("writing to a string cannot fail");
    }
    code.push_str("]\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("dashboard_assets.rs"), code)
}

/// Every file below `dir`, by its path from `base`.
fn collect(base: &Path, dir: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(base, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(base) {
            files.push((name.to_string_lossy().replace('\\', "/"), path));
        }
    }
    Ok(())
}
