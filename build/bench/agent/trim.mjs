// Trims messages, by turns of a person and a model, to a number of tokens. Standard input is the list of their texts.
// node trim.mjs TOKENS
import { AIMessage, HumanMessage, SystemMessage, trimMessages } from '@langchain/core/messages'
import { readFileSync } from 'node:fs'

const texts = JSON.parse(readFileSync(0, 'utf8'))
const messages = [new SystemMessage('Answer.'), ...texts.map((t, i) => (i % 2 ? new AIMessage(t) : new HumanMessage(t)))]
const tokenCounter = (list) => list.reduce((n, m) => n + m.content.length / 3.2 + 1, 0)
const ms = []
for (let i = -5; i < 20; i++) {
  const began = performance.now()
  const kept = await trimMessages(messages, { maxTokens: Number(process.argv[2]), strategy: 'last', tokenCounter, includeSystem: true, startOn: 'human' })
  if (kept.length < 2) throw new Error('nothing was kept')
  if (i >= 0) ms.push(performance.now() - began)
}
console.log(JSON.stringify(ms))
