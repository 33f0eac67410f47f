// Counts tokens with gpt-tokenizer. Its standard input is {texts, rounds}; the answer has the counts of both
// vocabularies and the milliseconds of processor time of each round over all texts with the newer one.
import { countTokens as newer } from 'gpt-tokenizer/encoding/o200k_base'
import { countTokens as older } from 'gpt-tokenizer/encoding/cl100k_base'
import { readFileSync } from 'node:fs'

const { texts, rounds } = JSON.parse(readFileSync(0, 'utf8'))
const counts = texts.map((t) => [newer(t), older(t)])
const ms = []
for (let i = 0; i < rounds; i++) {
  const began = process.cpuUsage()
  for (const t of texts) newer(t)
  const { user, system } = process.cpuUsage(began)
  ms.push((user + system) / 1000)
}
console.log(JSON.stringify({ counts, ms }))
