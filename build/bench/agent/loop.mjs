// Turns of ten steps with a tool each by the ai package. node loop.mjs BASE_URL ROUNDS
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { isStepCount, jsonSchema, streamText, tool } from 'ai'

const [, , baseURL, rounds] = process.argv
const model = createOpenAICompatible({ name: 'local', baseURL, includeUsage: true })('one')
const tools = { probe_read: tool({ description: '', inputSchema: jsonSchema({ type: 'object', properties: { n: { type: 'integer' } } }), execute: async () => 'read' }) }
const ms = []
for (let i = -5; i < Number(rounds); i++) {
  const began = performance.now()
  const result = streamText({ model, tools, prompt: 'Is it so?', stopWhen: isStepCount(20) })
  const text = await result.text
  const steps = await result.steps
  if (text !== 'Yes.' || steps.length !== 10) throw new Error(`${steps.length} steps: ${text}`)
  if (i >= 0) ms.push(performance.now() - began) // the first ones compile
}
console.log(JSON.stringify(ms))
