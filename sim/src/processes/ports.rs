//! Free loopback ports, found by binding them.
//!
//! Not here: keeping them. Between finding and using, another process may take one; the process that wanted it then says
//! so and the run stops. Ports below the range that operating systems hand out for outgoing connections are used, so
//! that a gateway's port is not taken by a client while it restarts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// More than one run needs: three ports for each of 64 gateways.
const STRIDE: u32 = 211;

/// `wanted` loopback addresses that nobody listens on, over TCP or UDP.
///
/// # Errors
/// When there are not so many.
pub(crate) fn free(wanted: usize) -> Result<Vec<SocketAddr>, String> {
    // Runs that go side by side have neighbouring process ids: they begin further apart than one needs ports.
    let start = u16::try_from(std::process::id().wrapping_mul(STRIDE) % u32::from(COUNT)).expect("below the count");
    let ports = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
    let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free: Vec<_> = addresses.filter(is_free).take(wanted).collect();
    if free.len() < wanted {
        return Err(format!("only {} of {wanted} loopback ports are free from {FIRST} on: stop something", free.len()));
    }
    Ok(free)
}

fn is_free(address: &SocketAddr) -> bool {
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_offered() {
        let first = free(1).expect("a free port")[0];
        let held = UdpSocket::bind(first).expect("it was free");
        let more = free(20).expect("free ports");
        assert!(!more.contains(&held.local_addr().expect("bound")));
        let distinct: std::collections::BTreeSet<_> = more.iter().collect();
        assert_eq!(distinct.len(), 20);
    }
}
