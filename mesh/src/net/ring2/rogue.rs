//! A member of the mesh, certificate and all, that speaks QUIC by hand: what a broken or hostile build could do on a
//! link.
//!
//! Not here: what it costs it (`streams`), the same over real sockets (`hostile`).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use covey_crdt::id::{GatewayName, LifeId};
use quinn::{Connection, Endpoint, RecvStream, SendStream};

use super::dice::Dice;
use super::ground::{Hearsay, VirtualGround};
use super::process::SECRET;
use super::world::World;
use crate::net::derive_hash_key;
use crate::net::framing::{Hello, class_byte, prefix, read_class};
use crate::net::ground::Ground;
use crate::net::identity::{Identity, MeshCa, SERVER_NAME};
use crate::net::tls::{Tls, protocol};
use crate::net::transport::{client_config, endpoint};
use crate::output::Class;

pub(super) const LIFE: LifeId = LifeId(0xbad);

/// A rogue with a link: both hellos are said.
pub(super) struct Rogue {
    _endpoint: Endpoint,
    pub(super) connection: Connection,
    pub(super) control_out: SendStream,
    pub(super) control_in: RecvStream,
}

impl Rogue {
    /// Links with the gateway at `to`, from an address of its own.
    pub(super) async fn link(world: &World, to: SocketAddr) -> Self {
        let own = SocketAddr::from(([10, 0, 9, 9], 9_999));
        let ground = Arc::new(VirtualGround {
            network: world.scene.network.clone(),
            directory: world.scene.directory.clone(),
            address: own,
            wall_offset_ms: 0,
            hearsay: Arc::new(Mutex::new(Hearsay::good())),
            gates: Mutex::default(),
            start: world.scene.start,
            dice: Mutex::new(Dice::new(world.scene.seed, "rogue")),
        });
        let ground: Arc<dyn Ground> = ground;
        let ca = MeshCa::derive(&SECRET).expect("derives");
        let me = Identity { name: GatewayName::new("rogue").expect("a name"), life: LIFE };
        let leaf = ca.issue(&me, ground.wall(), [5; 32]).expect("issues");
        let tls = Tls::new(&ca, leaf, &protocol(derive_hash_key(&SECRET).id()), &ground).expect("configures");
        let socket = ground.bind(own).and_then(|port| port.open()).expect("the port is free");
        let endpoint = endpoint(socket, &*ground, &SECRET, &me.name, &tls).expect("an endpoint");
        let connecting = endpoint.connect_with(client_config(&tls), to, SERVER_NAME).expect("dials");
        let connection = connecting.await.expect("connects");
        let mut control_out = connection.open_uni().await.expect("opens");
        let hello = Hello { life: LIFE, dial: 1, advertised: own }.encode();
        let first = [&[class_byte(Class::Control)], &prefix(&hello)[..], &hello].concat();
        control_out.write_all(&first).await.expect("writes");
        let mut control_in = connection.accept_uni().await.expect("the other's control stream");
        assert_eq!(read_class(&mut control_in).await, Ok(Some(Class::Control)));
        assert!(Hello::read(&mut control_in).await.expect("reads").is_some());
        Self { _endpoint: endpoint, connection, control_out, control_in }
    }
}
