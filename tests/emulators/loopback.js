// loopback.js - `node -r loopback.js SERVER`: every TCP listen() goes to 127.0.0.1, and says where it ended up.
//
// kinesis-local and the command line of kinesalite bind all addresses and cannot be told otherwise. Asked for port 0
// they get a free one; each is written as a line to the file KS_PORTS.
// SPDX-License-Identifier: Apache-2.0
'use strict'
const fs = require('fs')
const net = require('net')

const listen = net.Server.prototype.listen

net.Server.prototype.listen = function (...args) {
  const told = args.find((arg) => typeof arg === 'function')
  const first = args[0]

  if (first !== null && typeof first === 'object' && 'port' in first) {
    args[0] = { ...first, host: '127.0.0.1' }
  } else if (typeof first === 'number' || (typeof first === 'string' && /^\d+$/.test(first))) {
    args = [{ port: Number(first), host: '127.0.0.1' }]
    if (told) args.push(told)
  }
  this.once('listening', () => {
    const address = this.address()
    if (process.env.KS_PORTS && address && address.port) {
      fs.appendFileSync(process.env.KS_PORTS, `${address.port}\n`)
    }
  })
  return listen.apply(this, args)
}
