// A switch in user space for the mesh's datagrams: each gateway has a face here, which is what it advertises and what the
// others have as a seed. What a gateway sends to another's face leaves by its own face towards that other's real address,
// so answers find back whoever dialled, and any pair can be cut, one way or both.
import { createSocket } from 'node:dgram';

export class Switch {
  #homes;
  #sockets = [];
  #cut = new Set();
  faces = [];

  /** For gateways whose mesh ports these are. */
  static async start(homes) {
    const made = new Switch();
    made.#homes = homes;
    for (const to of homes.keys()) {
      const socket = createSocket({ type: 'udp4', recvBufferSize: 1 << 20, sendBufferSize: 1 << 20 });
      await new Promise((resolve) => { socket.bind(0, '127.0.0.1', resolve); });
      socket.on('message', (bytes, { port }) => made.#carry(bytes, homes.indexOf(port), to));
      made.#sockets.push(socket);
      made.faces.push(socket.address().port);
    }
    return made;
  }

  #carry(bytes, from, to) {
    if (from < 0 || this.#cut.has(`${from} ${to}`)) return;
    this.#sockets[from].send(bytes, this.#homes[to], '127.0.0.1', () => {});
  }

  /** Nothing passes from or to this gateway any more. */
  isolate(gateway) {
    for (const other of this.#homes.keys()) {
      if (other !== gateway) this.#cut.add(`${gateway} ${other}`).add(`${other} ${gateway}`);
    }
  }

  heal() {
    this.#cut.clear();
  }

  close() {
    this.#sockets.forEach((socket) => socket.close());
  }
}
