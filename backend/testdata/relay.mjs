// A program in JavaScript at the relay: node --experimental-websocket relay.mjs URL TICKET TICKET.
// It sends clocks and counters of 2^63-1, reads them on a second socket, and answers with what it read.
const [url, ...tickets] = process.argv.slice(2)
const most = '9223372036854775807'
const open = (ticket) => new Promise((ok, fail) => {
  const s = new WebSocket(`${url}?ticket=${ticket}`)
  const waiting = []
  const came = []
  s.onmessage = (e) => { const f = JSON.parse(e.data); waiting.length ? waiting.shift()(f) : came.push(f) }
  s.onerror = () => fail(new Error('the socket was refused'))
  s.next = async (type) => {
    for (;;) {
      const f = came.length ? came.shift() : await new Promise((got) => waiting.push(got))
      if (f.type === type) return f
      if (f.type === 'Error') throw new Error(f.message)
    }
  }
  s.onopen = () => { s.send(JSON.stringify({ type: 'Hello', cursor: '0', ack: true })); ok(s) }
})
const equal = (got, want, what) => { if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}`) }

const [a, b] = [await open(tickets[0]), await open(tickets[1])]
const [me, other, id] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
const delta = (device, clocks, data) => JSON.stringify({ type: 'Delta', entity_type: 'memories', entity_id: id, data, vector_clock: clocks, device_id: device })
a.send(delta(me, { clocks: { [me]: most } }, { content: 'counted to the end', access_count: most }))
equal((await a.next('Ack')).result, 'applied', 'first change')
let f
do f = await b.next('Delta'); while (f.entity_id !== id) // what was there before comes first
equal([f.entity_id, f.vector_clock.clocks[me], f.data.access_count], [id, most, most], 'what arrived')
b.send(delta(other, { ...f.vector_clock.clocks, [other]: 1 }, { content: 'seen', access_count: f.data.access_count }))
equal((await b.next('Ack')).result, 'applied', 'change of what had arrived')
let back
do back = await a.next('Delta'); while (back.entity_id !== id)
equal([back.data.content, back.data.access_count, back.vector_clock.clocks[me], back.vector_clock.clocks[other]], ['seen', most, most, 1], 'what came back')
console.log('ok')
process.exit(0)
