//! How Covey's gateways are told where they listen, who their workers are, and how they find each other.
//!
//! Not here: starting them.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;

use super::{MODEL, WorkerProcess, flags, ports};

/// Addresses of one gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) mesh: SocketAddr,
    /// Where the other gateways find it.
    pub(crate) told: SocketAddr,
}

impl Addresses {
    /// Free ones for `count` gateways.
    ///
    /// # Errors
    /// When there are not so many ports.
    pub(crate) fn free(count: usize) -> Result<Vec<Self>, String> {
        let all = ports::free(3 * count)?;
        let of = |three: &[SocketAddr]| Self { listen: three[0], admin: three[1], mesh: three[2], told: three[2] };
        Ok(all.chunks_exact(3).map(of).collect())
    }
}

/// Where a gateway listens, and its workers.
pub(crate) fn gateway_flags(own: &Addresses, workers: &[WorkerProcess]) -> Vec<String> {
    let mut list = vec!["gateway".to_owned()];
    list.extend(flags(&[
        ("--listen", own.listen.to_string()),
        ("--admin-listen", own.admin.to_string()),
        ("--model", MODEL.to_owned()),
    ]));
    let workers = workers.iter().map(|worker| ("--worker", format!("{}={}", worker.process.name, worker.base)));
    list.extend(flags(&workers.collect::<Vec<_>>()));
    list
}

/// What makes gateway `index` of `all` a member of their mesh.
pub(crate) fn mesh_flags(index: usize, all: &[Addresses], secret: &str) -> Vec<String> {
    let own = all[index];
    flags(&[
        ("--mesh", "on".to_owned()),
        ("--mesh-name", format!("g{index}")),
        ("--mesh-listen", own.mesh.to_string()),
        ("--mesh-advertise", own.told.to_string()),
        ("--mesh-seeds", seeds(index, all)),
        ("--mesh-secret-file", secret.to_owned()),
    ])
}

/// A file with a fresh secret that only its owner can read.
pub(crate) fn secret(folder: &Path) -> Result<String, String> {
    let cannot = |why: std::io::Error| format!("no secret for the mesh: {why}");
    let mut random = [0_u8; 32];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).map_err(cannot)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // `tempfile` makes files with mode 0600.
    let mut file = tempfile::Builder::new().prefix("secret").tempfile_in(folder).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    let (_, path) = file.keep().map_err(|why| cannot(why.error))?;
    Ok(path.display().to_string())
}

/// The next gateway and one further on: two places to join by, without any gateway that all depend on.
fn seeds(index: usize, all: &[Addresses]) -> String {
    let mut others: Vec<_> =
        [1, 3].iter().map(|step| (index + step) % all.len()).filter(|&other| other != index).collect();
    others.dedup();
    others.iter().map(|&other| all[other].told.to_string()).collect::<Vec<_>>().join(",")
}
