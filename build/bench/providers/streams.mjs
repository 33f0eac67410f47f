// The processor time of this process for streams of chat completions with the openai package.
// node streams.mjs BASE_URL MODEL STREAMS
import OpenAI from 'openai'

const [, , baseURL, model, streams] = process.argv
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 })
let deltas = 0
async function ask(model) {
  const stream = await client.chat.completions.create({ model, stream: true, messages: [{ role: 'user', content: 'A question. '.repeat(100) }] })
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) deltas++
}
await Promise.all(Array.from({ length: 64 }, () => ask('50/10000'))) // compiled by now
deltas = 0
const began = process.cpuUsage()
await Promise.all(Array.from({ length: Number(streams) }, () => ask(model)))
const took = process.cpuUsage(began)
console.log(JSON.stringify({ deltas, ms: (took.user + took.system) / 1000 }))
