// A small chat completions server over node-llama-cpp: streams, stops when the client goes away, and
// holds to a JSON Schema by a grammar. It writes its port and ends with its standard input.
// node server.mjs NODE_LLAMA_CPP MODEL
import http from 'node:http'
import { pathToFileURL } from 'node:url'
import { writeModel } from './model.mjs'

const [, , library, file] = process.argv
const { getLlama, LlamaCompletion } = await import(pathToFileURL(library).href)
writeModel(file, 42)
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: 1, progressLogs: false })
const model = await llama.loadModel({ modelPath: file })
const context = await model.createContext({ contextSize: 8192, threads: 1 })
const sequence = context.getSequence()
const completion = new LlamaCompletion({ contextSequence: sequence })

const stats = { begun: 0, finished: 0, aborted: 0, tokens: 0 }
let last = Promise.resolve() // one answer at a time

const text = (content) => (typeof content === 'string' ? content : (content ?? []).map((p) => p.text ?? '').join(''))

async function answer(q, res) {
  const gone = new AbortController()
  res.on('close', () => gone.abort())
  if (res.destroyed) return
  stats.begun++
  await sequence.clearHistory()
  const prompt = q.messages.map((m) => `${m.role}: ${text(m.content)}\n`).join('') + 'assistant: '
  const schema = q.response_format?.json_schema?.schema
  const grammar = schema && (await llama.createGrammarForJsonSchema(schema))
  const chunk = (delta, finish = null, more = {}) =>
    q.stream && res.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`)
  if (q.stream) res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  let tokens = 0
  try {
    const { response, metadata } = await completion.generateCompletionWithMeta(prompt, {
      grammar, maxTokens: q.max_tokens ?? 256, temperature: q.temperature ?? 0.8, seed: q.seed, signal: gone.signal,
      onToken: (list) => { tokens += list.length; stats.tokens += list.length },
      onTextChunk: (piece) => chunk({ content: piece }),
    })
    const finish = metadata.stopReason === 'maxTokens' ? 'length' : 'stop'
    const prompted = model.tokenize(prompt).length
    const usage = { prompt_tokens: prompted, completion_tokens: tokens, total_tokens: prompted + tokens }
    stats.finished++
    if (!q.stream) {
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', content: response }, finish_reason: finish }], usage }))
      return
    }
    chunk({}, finish)
    res.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [], usage })}\n\n`)
    res.end('data: [DONE]\n\n')
  } catch (err) {
    if (gone.signal.aborted) stats.aborted++
    else if (res.headersSent) res.end(`data: ${JSON.stringify({ error: { message: String(err) } })}\n\n`)
    else {
      res.statusCode = 500
      res.end(JSON.stringify({ error: { message: String(err) } }))
    }
  }
}

const server = http.createServer((req, res) => {
  if (req.url === '/stats') return res.end(JSON.stringify(stats))
  if (req.url === '/props') return res.end(JSON.stringify({ default_generation_settings: { n_ctx: 8192 } }))
  if (req.method === 'GET') return res.end(JSON.stringify({ data: [{ id: 'random' }] }))
  let body = ''
  req.on('data', (d) => { body += d })
  req.on('end', () => { last = last.then(() => answer(JSON.parse(body), res)) })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.on('end', () => process.exit(0)).resume()
