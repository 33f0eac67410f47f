// PouchDB on leveldb against express-pouchdb on leveldb, in two processes of Node: `server DIR` prints
// its address, `client DIR URL DOCS DELTAS` prints one JSON object. Every write of either is durable, as ours are.
import { createRequire } from 'node:module'
import { mkdirSync } from 'node:fs'
import { performance } from 'node:perf_hooks'

const require = createRequire(import.meta.url)
const leveldown = require('leveldown')
for (const name of ['_put', '_del', '_batch']) {
  const plain = leveldown.prototype[name]
  leveldown.prototype[name] = function (...args) {
    const options = args[args.length - 2]
    if (options && typeof options === 'object' && !Array.isArray(options)) args[args.length - 2] = { ...options, sync: true }
    return plain.apply(this, args)
  }
}
const PouchDB = require('pouchdb')
const [role, dir, url, docs, deltas] = process.argv.slice(2)
mkdirSync(dir, { recursive: true })
const Local = PouchDB.defaults({ prefix: dir + '/' })

if (role === 'server') {
  const app = require('express')()
  app.use('/', require('express-pouchdb')(Local, { mode: 'minimumForPouchDB', inMemoryConfig: true, logPath: dir + '/log.txt' }))
  const server = app.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`))
} else {
  const text = (i) => (String(i).padStart(8, '0') + ' ' + 'Some text of a note, as people write it, with a few words. '.repeat(6)).slice(0, 300)
  const remote = () => new PouchDB(url + 'bench')
  const options = { batch_size: 1000, batches_limit: 10 }
  const a = new Local('a')
  for (let i = 0; i < docs; i += 1000) {
    await a.bulkDocs(Array.from({ length: 1000 }, (_, k) => ({ _id: String(i + k).padStart(8, '0'), content: text(i + k) })))
  }
  const rate = async (fn) => {
    const begin = performance.now()
    const r = await fn()
    if (r.docs_written !== Number(docs)) throw new Error(`${r.docs_written} documents`)
    return docs / ((performance.now() - begin) / 1000)
  }
  const push = await rate(() => a.replicate.to(remote(), options))
  const c = new Local('c')
  const pull = await rate(() => c.replicate.from(remote(), options))

  const out = a.replicate.to(remote(), { live: true })
  const back = c.replicate.from(remote(), { live: true })
  const took = []
  let came
  back.on('change', () => came?.())
  for (let i = -10; i < deltas; i++) {
    const arrived = new Promise((ok) => { came = ok })
    await a.put({ _id: `delta${i}`, content: text(i) })
    const begin = performance.now()
    await arrived
    if (i >= 0) took.push(performance.now() - begin)
  }
  out.cancel()
  back.cancel()
  took.sort((x, y) => x - y)
  const at = (q) => took[Math.min(took.length - 1, Math.floor(q * took.length))]
  console.log(JSON.stringify({ push, pull, p50: at(0.5), p99: at(0.99) }))
  process.exit(0)
}
