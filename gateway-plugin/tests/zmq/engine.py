"""The socket side of an engine over the real libzmq, as vLLM has it: PUB with a topic, ROUTER that replays.

Used by `make check-zmq` alone. Prints its two ports, has published 300 batches before anybody listens, answers replays,
and publishes 5,000 more once the first replay was answered.
"""

import collections
import struct

import zmq

PAST, LIVE = 300, 5_000


def payload(seq):
    tokens = b"".join(b"\xce" + struct.pack(">I", seq * 4 + nth) for nth in range(4))
    store = b"\x95\xabBlockStored\x91\xcf" + struct.pack(">Q", seq + 1) + b"\xc0\x94" + tokens + b"\x04"
    return b"\x92\xcb" + struct.pack(">d", float(seq)) + b"\x91" + store


context = zmq.Context()
publisher, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
publisher.set_hwm(100_000)
router.setsockopt(zmq.SNDHWM, 20_000)
ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (publisher, router)]
print(*ports, flush=True)
kept = collections.deque(((seq, payload(seq)) for seq in range(PAST)), maxlen=10_000)
seq, asked = PAST, False
while True:
    if router.poll(0 if asked and seq < PAST + LIVE else 20):
        client, empty, start = router.recv_multipart()
        assert empty == b"", empty
        for number, bytes_ in kept:
            if number >= struct.unpack(">Q", start)[0]:
                router.send_multipart([client, b"", b"kv", struct.pack(">Q", number), bytes_])
        router.send_multipart([client, b"", b"", b"\xff" * 8, b""])
        asked = True
    elif asked and seq < PAST + LIVE:
        publisher.send_multipart([b"other", struct.pack(">Q", seq), b"\xc1"])
        publisher.send_multipart([b"kv", struct.pack(">Q", seq), payload(seq)])
        kept.append((seq, payload(seq)))
        seq += 1
