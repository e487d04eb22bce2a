//! The wire against peers that are wrong, slow or hostile.

use proptest::prelude::*;

use super::codec::*;

const READY: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";

fn greeted() -> Reader {
    let mut reader = Reader::new(SocketType::Sub);
    let bytes = [&greeting()[..], READY].concat();
    let mut input = &bytes[..];
    assert_eq!(reader.read(&mut input), Ok(Some(Item::Ready)));
    assert!(input.is_empty());
    reader
}

fn refused(bytes: &[u8]) -> RefuseWire {
    let mut reader = greeted();
    let mut input = bytes;
    loop {
        match reader.read(&mut input) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("{bytes:?} was not refused"),
            Err(why) => {
                assert_eq!(reader.read(&mut &b"\0\0"[..]), Err(RefuseWire::Order), "nothing is read after a refusal");
                return why;
            }
        }
    }
}

fn items(mut input: &[u8]) -> Vec<Item> {
    let mut reader = greeted();
    let mut items = Vec::new();
    while let Some(item) = reader.read(&mut input).expect("no refusal") {
        items.push(item);
    }
    items
}

#[test]
fn a_length_that_may_not_be_is_refused_by_its_header() {
    let long = |flags: u8, length: u64| [&[flags][..], &length.to_be_bytes()].concat();
    assert_eq!(refused(&long(2, 1 << 63)), RefuseWire::TooLarge { bytes: 1 << 63 });
    assert_eq!(refused(&long(2, u64::MAX)), RefuseWire::TooLarge { bytes: u64::MAX });
    assert_eq!(refused(&long(3, 1 << 40)), RefuseWire::TooLarge { bytes: 1 << 40 });
    let just_above = MESSAGE_BYTES_MAX as u64 + 1;
    assert_eq!(refused(&long(2, just_above)), RefuseWire::TooLarge { bytes: just_above });
    let above = COMMAND_BYTES_MAX as u64 + 1;
    assert_eq!(refused(&long(6, above)), RefuseWire::TooLarge { bytes: above });
}

#[test]
fn a_message_of_large_parts_is_refused_as_a_whole() {
    let half = vec![7; MESSAGE_BYTES_MAX / 2];
    let mut bytes = message(&[&half, &half, b"x"]);
    assert_eq!(refused(&bytes), RefuseWire::TooLarge { bytes: 1 });
    bytes = message(&[&half, &half]);
    assert_eq!(items(&bytes).len(), 1, "exactly the bound");
}

#[test]
fn endless_parts_are_refused() {
    let most: Vec<&[u8]> = vec![b"a"; PARTS_MAX];
    assert_eq!(items(&message(&most)).len(), 1);
    let endless: Vec<&[u8]> = vec![b""; PARTS_MAX + 1];
    assert_eq!(refused(&message(&endless)), RefuseWire::TooManyParts);
}

#[test]
fn what_does_not_greet_as_zmtp_3_is_refused_at_its_first_wrong_byte() {
    let greet = |bytes: &[u8]| Reader::new(SocketType::Sub).read(&mut &bytes[..]);
    assert_eq!(greet(b"HTTP/1.1 400 Bad Request\r\n"), Err(RefuseWire::Greeting { at: 0 }));
    assert_eq!(greet(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x01]), Err(RefuseWire::Greeting { at: 9 }));
    let mut old = greeting();
    old[10] = 2;
    assert_eq!(greet(&old), Err(RefuseWire::Greeting { at: 10 }));
    let mut curve = greeting();
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(greet(&curve), Err(RefuseWire::Mechanism));
    let mut longer = greeting();
    longer[16] = b'X';
    assert_eq!(greet(&longer), Err(RefuseWire::Mechanism));
}

#[test]
fn commands_are_read_with_suspicion() {
    assert_eq!(refused(READY), RefuseWire::Order, "ready twice");
    assert_eq!(refused(b"\x05\x00"), RefuseWire::Flags { flags: 5 }, "a command is one frame");
    assert_eq!(refused(b"\x88\x00"), RefuseWire::Flags { flags: 0x88 });
    assert_eq!(refused(b"\x04\x00"), RefuseWire::Command, "without a name");
    assert_eq!(refused(b"\x04\x02\x05AB"[..4].into()), RefuseWire::Command, "a name longer than the command");
    assert_eq!(items(b"\x04\x05\x04NEWS\x00\x01a"), [Item::Message(vec!["a".into()])], "a later command says nothing");
    let ping = items(b"\x04\x09\x04PING\x00\x0aab");
    assert_eq!(ping, [Item::Ping { context: "ab".into() }]);
    assert_eq!(pong(b"ab"), b"\x04\x07\x04PONGab");
}

#[test]
fn a_peer_that_cannot_talk_to_us_is_named() {
    let first = |ours: SocketType, bytes: &[u8]| {
        let bytes = [&greeting()[..], bytes].concat();
        Reader::new(ours).read(&mut &bytes[..])
    };
    assert_eq!(first(SocketType::Dealer, READY), Err(RefuseWire::Peer { socket: "PUB".into() }));
    assert_eq!(first(SocketType::Sub, b"\x00\x01a"), Err(RefuseWire::Order), "a message before READY");
    assert_eq!(first(SocketType::Sub, b"\x04\x06\x05READY"), Err(RefuseWire::Command), "without a socket type");
    let error = first(SocketType::Sub, b"\x04\x0b\x05ERROR\x04no\n!");
    assert_eq!(error, Err(RefuseWire::Refused { why: "no?!".into() }));
    let huge = b"\x04\x17\x05READY\x0bSocket-Type\xff\xff\xff\xff1";
    assert_eq!(first(SocketType::Sub, huge), Err(RefuseWire::Command), "a value longer than the command");
}

#[test]
fn what_we_say_is_what_the_protocol_says() {
    assert_eq!(ready(SocketType::Sub), b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB");
    assert_eq!(
        ready(SocketType::Dealer),
        b"\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    );
    assert_eq!(message(&[b"", b"ab"]), b"\x01\x00\x00\x02ab");
    let long = message(&[&[9; 256]]);
    assert_eq!((&long[..9], long.len()), (&[2, 0, 0, 0, 0, 0, 0, 1, 0][..], 265));
}

proptest! {
    /// However the bytes are cut into pieces, the same items come out.
    #[test]
    fn any_cut_gives_the_same_items(
        messages in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..=PARTS_MAX), 0..6),
        cuts in prop::collection::vec(1..400_usize, 1..40),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|parts| {
            message(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
        }).collect();
        let mut reader = greeted();
        let (mut left, mut found) = (&bytes[..], Vec::new());
        for cut in cuts.iter().cycle() {
            if left.is_empty() {
                break;
            }
            let (mut piece, rest) = left.split_at((*cut).min(left.len()));
            while let Some(item) = reader.read(&mut piece).expect("a message") {
                found.push(item);
            }
            prop_assert!(piece.is_empty());
            left = rest;
        }
        let wanted: Vec<Item> = messages.into_iter()
            .map(|parts| Item::Message(parts.into_iter().map(Into::into).collect())).collect();
        prop_assert_eq!(found, wanted);
    }

    /// No bytes panic, and a refusal is final.
    #[test]
    fn no_bytes_panic(noise in prop::collection::vec(any::<u8>(), 0..400), is_greeted in any::<bool>()) {
        let mut reader = if is_greeted { greeted() } else { Reader::new(SocketType::Dealer) };
        let mut input = &noise[..];
        while let Ok(Some(_)) = reader.read(&mut input) {}
    }
}
