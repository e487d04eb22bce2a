//! Carrying out the plan: resolving names, dialling addresses, accepting those who dial us, and saying in the log what
//! went wrong and what to do about it.
//!
//! Not here: whom to dial when (`plan`), what happens on a connection (`peer`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connecting, Endpoint, Incoming};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::context::Context;
use super::identity::SERVER_NAME;
use super::metrics::LinkFailure;
use super::peer::{Refused, establish};
use super::transport::{HANDSHAKE_TIMEOUT, HANDSHAKES_MAX, HANDSHAKES_UNPROVEN_MAX, canonical, failure, reachable};

/// How often the plan is looked at when nothing changes.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Addresses taken from one name.
const ADDRESSES_MAX: usize = 256;

/// Dials what the plan says, for ever.
pub(super) async fn dial_all(context: Arc<Context>, endpoint: Endpoint) {
    loop {
        let due = context.plan().due(context.now());
        for (index, seed) in due.seeds {
            context.spawn(resolve(Arc::clone(&context), index, seed));
        }
        for (address, patience) in due.dials {
            context.spawn(dial(Arc::clone(&context), endpoint.clone(), address, patience));
        }
        let _ = timeout(LOOK_EVERY, context.replan.notified()).await;
    }
}

async fn resolve(context: Arc<Context>, index: usize, seed: String) {
    let found = timeout(HANDSHAKE_TIMEOUT, context.shared.ground.resolve(seed.clone())).await;
    let (addresses, error) = match found {
        Ok(Ok(addresses)) => (addresses.into_iter().map(canonical).take(ADDRESSES_MAX).collect(), None),
        Ok(Err(error)) => (Vec::new(), Some(error.to_string())),
        Err(_) => (Vec::new(), Some("no answer in time".to_owned())),
    };
    if addresses.is_empty() {
        context.counters().dials_failed.add(LinkFailure::Resolve);
        // Names have no address to throttle by: the seed's number stands for one.
        let subject = SocketAddr::from(([0, 0, 0, 0], u16::try_from(index).unwrap_or(u16::MAX)));
        if context.throttle.allows(subject, LinkFailure::Resolve, context.now()) {
            warn!(seed, error = error.as_deref().unwrap_or("no addresses"), "cannot resolve a seed; trying again");
        }
    }
    context.plan().resolved(index, &addresses, context.now());
    context.replan.notify_one();
}

async fn dial(context: Arc<Context>, endpoint: Endpoint, address: SocketAddr, patience: Duration) {
    context.counters().dials.add(1);
    let (life, result) = match try_dial(&context, &endpoint, address, patience).await {
        Ok(life) => (Some(life), Ok(())),
        Err(refused) => (refused.life, Err(refused.why)),
    };
    if let Err(why) = result {
        context.counters().dials_failed.add(why);
        report(&context, address, why, true);
    }
    if context.plan().dialled(address, life, result, context.now()) {
        info!(%address, "a seed is this gateway's own address; leaving it out");
    }
}

async fn try_dial(
    context: &Arc<Context>,
    endpoint: &Endpoint,
    address: SocketAddr,
    patience: Duration,
) -> Result<covey_crdt::id::LifeId, Refused> {
    let nobody = |why| Refused { why, life: None };
    let config = quinn::ClientConfig::clone(&context.client.load());
    let mut connecting =
        endpoint.connect_with(config, reachable(address, context.bound), SERVER_NAME).map_err(|error| {
            debug!(%address, %error, "cannot dial");
            nobody(LinkFailure::Unreachable)
        })?;
    // The first sign of life. Its error, if any, is the handshake's as well.
    if timeout(patience, connecting.handshake_data()).await.is_err() {
        return Err(nobody(LinkFailure::TimedOut));
    }
    let connection = handshake(connecting).await.map_err(nobody)?;
    establish(context, connection, Some(context.next_dial())).await
}

async fn handshake(connecting: Connecting) -> Result<quinn::Connection, LinkFailure> {
    match timeout(HANDSHAKE_TIMEOUT, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(LinkFailure::TimedOut),
    }
}

/// Accepts whoever dials and has a certificate of the mesh, for ever.
pub(super) async fn accept_all(context: Arc<Context>, endpoint: Endpoint) {
    let permits = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while let Some(incoming) = endpoint.accept().await {
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            context.counters().handshakes_ignored.add(1);
            incoming.ignore();
            continue;
        };
        let busy = HANDSHAKES_MAX - permits.available_permits() > HANDSHAKES_UNPROVEN_MAX;
        if busy && !incoming.remote_address_validated() && incoming.may_retry() {
            let _ = incoming.retry();
            continue;
        }
        let acceptor = Arc::clone(&context);
        context.spawn(async move {
            accept(&acceptor, incoming).await;
            drop(permit);
        });
    }
}

async fn accept(context: &Arc<Context>, incoming: Incoming) {
    let address = canonical(incoming.remote_address());
    let accepted = match incoming.accept() {
        Ok(connecting) => match handshake(connecting).await {
            Ok(connection) => establish(context, connection, None).await,
            Err(why) => Err(Refused { why, life: None }),
        },
        Err(error) => Err(Refused { why: failure(&error), life: None }),
    };
    if let Err(refused) = accepted {
        context.counters().handshakes_refused.add(refused.why);
        report(context, address, refused.why, false);
    }
}

/// One line per address, reason and minute; the ordinary ends of a connection attempt are not worth a warning.
fn report(context: &Context, address: SocketAddr, why: LinkFailure, dialled: bool) {
    if matches!(why, LinkFailure::OwnAddress | LinkFailure::Mismatch)
        || !context.throttle.allows(address, why, context.now())
    {
        return;
    }
    match why {
        LinkFailure::Secret => warn!(
            %address, dialled,
            "peer at {address} does not share this mesh's secret; give every gateway the same secret file"
        ),
        LinkFailure::Clock => warn!(
            %address, dialled,
            "a certificate is outside its dates: the clock of {address} or of this host is wrong; \
             certificates allow an hour behind and a day ahead, check NTP on both"
        ),
        LinkFailure::Protocol => warn!(%address, dialled, "{address} is no covey gateway, or an incompatible one"),
        LinkFailure::Unreachable => warn!(%address, dialled, "{address} cannot be reached from the listening address"),
        LinkFailure::TimedOut if dialled => info!(%address, "no answer from {address}; trying again"),
        LinkFailure::TimedOut
        | LinkFailure::Duplicate
        | LinkFailure::Closed
        | LinkFailure::Resolve
        | LinkFailure::OwnAddress
        | LinkFailure::Mismatch => debug!(%address, dialled, why = why.name(), "connection attempt ended"),
    }
}
